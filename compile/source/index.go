package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// Index remembers the digest (and the scan) of files by path, size, time and
// inode, as git's index does, so that a build that changes nothing reads no
// source. It is safe for use by many goroutines.
//
// A file that was written in the same tick as it was read could change again
// without a new time, so what is younger than the racy span when it is read is
// used but not remembered.
type Index struct {
	path  string
	mu    sync.Mutex
	files map[string]*indexed // by absolute path; guarded by mu
	used  map[string]bool     // guarded by mu
	dirty bool                // guarded by mu
	now   func() time.Time
}

// indexed is one remembered file.
type indexed struct {
	Size   int64         `json:"s"`
	MTime  int64         `json:"m"`
	CTime  int64         `json:"c"`
	Inode  uint64        `json:"i"`
	Digest action.Digest `json:"d"`
	Scan   *Scan         `json:"x,omitempty"`
}

// racySpan is longer than the coarsest file time in use (2 s on FAT).
const racySpan = 3 * time.Second

// indexVersion changes with the format and with what Text finds.
const indexVersion = 2

type indexFile struct {
	Version int                 `json:"version"`
	Files   map[string]*indexed `json:"files"`
}

// OpenIndex reads an index. One that is missing, damaged or of another version
// is an empty one; an empty path gives an index that is never saved.
func OpenIndex(path string) *Index {
	x := &Index{path: path, files: map[string]*indexed{}, used: map[string]bool{}, now: time.Now}
	b, err := os.ReadFile(path)
	if err != nil {
		return x
	}
	var f indexFile
	if json.Unmarshal(b, &f) == nil && f.Version == indexVersion && f.Files != nil {
		x.files = f.Files
		for _, e := range x.files {
			if e == nil {
				x.files = map[string]*indexed{}
				break
			}
		}
	}
	return x
}

// Save writes the index when something changed. Entries that this process did
// not ask for are dropped when their file is gone.
func (x *Index) Save() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.dirty || x.path == "" {
		return nil
	}
	for p := range x.files {
		if !x.used[p] {
			if _, err := os.Lstat(p); err != nil {
				delete(x.files, p)
			}
		}
	}
	b, err := json.Marshal(indexFile{indexVersion, x.files})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(x.path), 0o777); err != nil {
		return fmt.Errorf("save the file index: %w", err)
	}
	if err := renameio.WriteFile(x.path, b, 0o666); err != nil {
		return fmt.Errorf("save the file index: %w", err)
	}
	x.dirty = false
	return nil
}

// maxSource bounds a source file. Larger things belong into a data file.
const maxSource = 256 << 20

// Digest returns the digest of a regular file.
func (x *Index) Digest(path string) (action.Digest, error) {
	e, err := x.lookup(path, false)
	if err != nil {
		return action.Digest{}, err
	}
	return e.Digest, nil
}

// Scan returns the digest of a source and what its text says.
func (x *Index) Scan(path string) (action.Digest, Scan, error) {
	e, err := x.lookup(path, true)
	if err != nil {
		return action.Digest{}, Scan{}, err
	}
	return e.Digest, *e.Scan, nil
}

func (x *Index) lookup(path string, scan bool) (*indexed, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("expected a regular file")}
	}
	now := indexedStat(fi)
	x.mu.Lock()
	x.used[path] = true
	old := x.files[path]
	x.mu.Unlock()
	if old != nil && old.Size == now.Size && old.MTime == now.MTime && old.CTime == now.CTime && old.Inode == now.Inode && (!scan || old.Scan != nil) {
		return old, nil
	}
	if fi.Size() > maxSource {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%d bytes are more than the %d that an input may have", fi.Size(), maxSource)}
	}
	readAt := x.now()
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	now.Digest = action.DigestOf(b)
	if scan {
		s := Scan{}
		if bytes.IndexByte(b, 0) < 0 {
			s = Text(b)
		}
		now.Scan = &s
	}
	if int64(len(b)) == now.Size && readAt.Sub(time.Unix(0, max(now.MTime, now.CTime))) > racySpan {
		x.mu.Lock()
		x.files[path], x.dirty = now, true
		x.mu.Unlock()
	}
	return now, nil
}
