package toolchain

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/google/renameio/v2"

	"github.com/thox-ai/thoxbuild/internal/filetime"
)

// stamp tells whether installed files are still those that a memo is about,
// without reading them: it changes when one is written, replaced or removed.
type stamp struct {
	text string
	last time.Time // of the last change to one of them
}

// stampOf looks at files and folders. It is the zero stamp, which no memo has,
// when one cannot be looked at.
func stampOf(paths ...string) stamp {
	var parts []string
	var last time.Time
	for _, p := range paths {
		fi, err := os.Stat(p)
		if err != nil {
			return stamp{}
		}
		changed, inode := filetime.Changed(fi)
		parts = append(parts, fmt.Sprintf("%s %d %d %d %d", p, fi.Size(), fi.ModTime().UnixNano(), changed.UnixNano(), inode))
		for _, t := range []time.Time{fi.ModTime(), changed} {
			if t.After(last) {
				last = t
			}
		}
	}
	return stamp{fingerprint(parts...), last}
}

// memo is what was found out about files with a stamp. It is kept beside the
// locks; one that is missing, damaged or about other files only costs time.
type memo struct {
	Stamp string `json:"stamp"`
	Entry string `json:"entry"`
}

// readMemo returns what was remembered about files that have not changed.
func readMemo(path string, s stamp) (entry string, ok bool) {
	var m memo
	b, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(b, &m) != nil || s.text == "" || m.Stamp != s.text || m.Entry == "" {
		return "", false
	}
	return m.Entry, true
}

// writeMemo remembers what was found after s was taken, at the time read. That
// it cannot be written does not matter: the next run finds out again.
func writeMemo(path string, s stamp, read time.Time, entry string) {
	if s.text == "" || read.Sub(s.last) < filetime.RacySpan {
		return
	}
	if b, err := json.Marshal(memo{s.text, entry}); err == nil {
		_ = renameio.WriteFile(path, b, 0o644)
	}
}
