package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"github.com/thox-ai/thoxbuild/compile/action"
	"github.com/thox-ai/thoxbuild/internal/filetime"
)

// Index remembers the digest (and the scan) of files by path, size, times and
// inode, as git's index does, so that a build that changes nothing reads no
// source and no library. It is safe for use by many goroutines.
//
// A file that was written in the same tick as it was read could change again
// without a new time, so what is too young when it is read is used but not
// remembered; see settled.
type Index struct {
	path  string
	mu    sync.Mutex
	lines map[string][]byte   // what was read of the file, by quoted path; guarded by mu
	files map[string]*indexed // what was looked at, by absolute path; guarded by mu
	used  map[string]bool     // by quoted path; guarded by mu
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
	// From is the digest of what the file was made from, where it is text that
	// a build generates.
	From *action.Digest `json:"f,omitempty"`
}

// indexedStat takes what tells a changed file from the same one. The change
// time catches an edit that sets the modification time back.
func indexedStat(fi os.FileInfo) *indexed {
	changed, inode := filetime.Changed(fi)
	return &indexed{Size: fi.Size(), MTime: fi.ModTime().UnixNano(), CTime: changed.UnixNano(), Inode: inode}
}

// same reports whether a file still is the one that was remembered.
func (e *indexed) same(now *indexed) bool {
	return e.Size == now.Size && e.MTime == now.MTime && e.CTime == now.CTime && e.Inode == now.Inode
}

// settled reports whether a change of the file from the moment at on, which Now
// gave, shows in its times. Where change times are those of the clock that Now
// reads, one tick tells; a time without digits below the microsecond may have
// been rounded.
func (e *indexed) settled(at time.Time, sameClock bool) bool {
	if sameClock && e.CTime%1000 != 0 {
		return at.UnixNano() > e.CTime
	}
	return at.Sub(time.Unix(0, max(e.MTime, e.CTime))) > filetime.RacySpan
}

// Now is the time by the clock that Linux takes change times from; it moves in
// ticks of some milliseconds.
func (x *Index) Now() time.Time { return x.now() }

// indexHeader starts the file; the digest of the rest follows. It changes with
// the format and with what Text finds. Each line behind it is a quoted path, a
// space and the file's entry.
const indexHeader = "thoxbuild index 4 "

// OpenIndex reads an index. One that is missing, damaged or of another version
// is an empty one; an empty path gives an index that is never saved.
func OpenIndex(path string) *Index {
	x := &Index{path: path, lines: map[string][]byte{}, files: map[string]*indexed{}, used: map[string]bool{}, now: changeClock}
	b, err := os.ReadFile(path)
	if err != nil {
		return x
	}
	head, rest, _ := bytes.Cut(b, []byte("\n"))
	if string(head) != indexHeader+action.DigestOf(rest).String() {
		return x
	}
	for line := range bytes.Lines(rest) {
		// A quoted path may hold spaces, an entry holds none.
		if at := bytes.LastIndexByte(line, ' '); at >= 0 {
			x.lines[string(line[:at])] = line
		}
	}
	return x
}

// entry is what is known of a file, nil for nothing; mu is held.
func (x *Index) entry(path, quoted string) *indexed {
	x.used[quoted] = true
	if e, ok := x.files[path]; ok {
		return e
	}
	var e *indexed
	if line, ok := x.lines[quoted]; ok {
		e = &indexed{}
		if json.Unmarshal(line[len(quoted)+1:], e) != nil {
			e = nil
		}
	}
	x.files[path] = e
	return e
}

// remember puts an entry into the index; mu is held.
func (x *Index) remember(path string, e *indexed) {
	quoted := strconv.Quote(path)
	x.used[quoted], x.files[path], x.dirty = true, e, true
	delete(x.lines, quoted)
}

// Save writes the index when something changed. Entries that this process did
// not ask for are dropped when their file is gone.
func (x *Index) Save() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.dirty || x.path == "" {
		return nil
	}
	var lines [][]byte
	for quoted, line := range x.lines {
		if !x.used[quoted] {
			if path, err := strconv.Unquote(quoted); err != nil {
				continue
			} else if _, err := os.Lstat(path); err != nil {
				continue
			}
		}
		lines = append(lines, line)
	}
	for path, e := range x.files {
		quoted := strconv.Quote(path)
		if _, old := x.lines[quoted]; old || e == nil {
			continue
		}
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Appendf(nil, "%s %s\n", quoted, spaceless(text)))
	}
	slices.SortFunc(lines, bytes.Compare)
	rest := bytes.Join(lines, nil)
	if err := os.MkdirAll(filepath.Dir(x.path), 0o777); err != nil {
		return fmt.Errorf("save the file index: %w", err)
	}
	head := indexHeader + action.DigestOf(rest).String() + "\n"
	if err := renameio.WriteFile(x.path, append([]byte(head), rest...), 0o666); err != nil {
		return fmt.Errorf("save the file index: %w", err)
	}
	x.dirty = false
	return nil
}

// spaceless writes the spaces inside JSON's strings another way, which leaves
// none: json.Marshal puts none elsewhere.
func spaceless(text []byte) []byte { return bytes.ReplaceAll(text, []byte(" "), []byte(`\u0020`)) }

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

// Wrote tells the index what a file holds that this process has written. fi is
// what the open file said of itself after the last change, published is Now
// before another process could find it: what changes it then has a later time,
// or else the file is not remembered.
func (x *Index) Wrote(path string, fi os.FileInfo, published time.Time, d action.Digest) {
	e := indexedStat(fi)
	e.Digest = d
	if e.Size != d.Size || !e.settled(published, sameClock(path)) {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remember(path, e)
}

// MadeFrom reports whether a file is known to be what was made from something
// with the digest from: it is the very file of which SetFrom said so.
func (x *Index) MadeFrom(path string, from action.Digest) bool {
	fi, err := os.Lstat(path)
	if err != nil || !fi.Mode().IsRegular() {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.entry(path, strconv.Quote(path))
	return e != nil && e.From != nil && *e.From == from && e.same(indexedStat(fi))
}

// SetFrom says what a file with a digest was made from. It is remembered where
// the file's digest is.
func (x *Index) SetFrom(path string, d, from action.Digest) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.entry(path, strconv.Quote(path)); e != nil && e.Digest == d {
		with := *e // another goroutine may be reading e
		with.From = &from
		x.remember(path, &with)
	}
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
	quoted := strconv.Quote(path)
	x.mu.Lock()
	old := x.entry(path, quoted)
	x.mu.Unlock()
	if old != nil && old.same(now) && (!scan || old.Scan != nil) {
		return old, nil
	}
	readAt := x.Now()
	if scan {
		err = now.scan(path)
	} else {
		now.Digest, err = action.DigestFile(path)
	}
	if err != nil {
		return nil, err
	}
	if now.Digest.Size == now.Size && now.settled(readAt, sameClock(path)) {
		x.mu.Lock()
		x.remember(path, now)
		x.mu.Unlock()
	}
	return now, nil
}

// scan reads a source.
func (e *indexed) scan(path string) error {
	if e.Size > maxSource {
		return &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%d bytes are more than the %d that a source may have", e.Size, maxSource)}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	s := Scan{}
	if bytes.IndexByte(b, 0) < 0 {
		s = Text(b)
	}
	e.Digest, e.Scan = action.DigestOf(b), &s
	return nil
}
