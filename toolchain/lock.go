package toolchain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
)

// Lock is toolchain.lock: for every package that a build used, its file and
// hash. It holds no address, so any index that serves the same bytes will do.
// A Lock may be used by several goroutines.
type Lock struct {
	mu       sync.Mutex
	packages map[string]Package
	changed  map[string]bool // keys that were put and not saved yet
}

// Package pins one file of one project.
type Package struct {
	// Key is what asked for it: "torch-2.13 x86_64" or "ziglang x86_64".
	Key     string `json:"key"`
	Project string `json:"project"`
	Version string `json:"version"`
	File    string `json:"file"`
	SHA256  string `json:"sha256"`
	Size    int64  `json:"size,omitempty"`
	// Record is the sha256 of the wheel's RECORD for packages that are read
	// by ranges, where the whole file is never hashed. RECORD in turn holds
	// the sha256 of every member.
	Record string `json:"record,omitempty"`
}

type lockFile struct {
	Format   int       `json:"toolchain-lock"`
	Packages []Package `json:"packages"`
}

const lockFormat = 1

// ReadLock reads a lock file; a missing one is an empty lock.
func ReadLock(path string) (*Lock, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &Lock{}, nil
	}
	if err != nil {
		return nil, err
	}
	l, err := ParseLock(b)
	return l, hinted("read "+path, err, "restore the file from version control, or delete it to pin the newest packages again")
}

// ParseLock reads the text of a lock file.
func ParseLock(b []byte) (*Lock, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var f lockFile
	if err := d.Decode(&f); err != nil {
		return nil, err
	}
	if f.Format != lockFormat {
		return nil, fmt.Errorf("format %d, this thoxbuild reads %d", f.Format, lockFormat)
	}
	l := &Lock{packages: map[string]Package{}}
	for _, p := range f.Packages {
		switch {
		case p.Key == "" || p.File == "" || p.Project == "":
			return nil, errors.New("a package lacks its key, project or file")
		case len(p.SHA256) != 64 || strings.Trim(p.SHA256, "0123456789abcdef") != "":
			return nil, fmt.Errorf("package %s: sha256 must be 64 hex digits", p.Key)
		case strings.ContainsAny(p.File, `/\`):
			return nil, fmt.Errorf("package %s: file %q must be a plain name", p.Key, p.File)
		}
		if _, dup := l.packages[p.Key]; dup {
			return nil, fmt.Errorf("package %s is pinned twice", p.Key)
		}
		l.packages[p.Key] = p
	}
	return l, nil
}

// Bytes prints the lock, sorted by key.
func (l *Lock) Bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes()
}

func (l *Lock) bytes() []byte {
	f := lockFile{Format: lockFormat, Packages: []Package{}}
	for _, p := range l.packages {
		f.Packages = append(f.Packages, p)
	}
	slices.SortFunc(f.Packages, func(a, b Package) int { return strings.Compare(a.Key, b.Key) })
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		panic(err) // strings and numbers only
	}
	return append(b, '\n')
}

// Save writes what has changed. Builds of other variants may have written the
// file since it was read: what they pinned stays.
func (l *Lock) Save(path string) error {
	l.mu.Lock()
	none := len(l.changed) == 0
	l.mu.Unlock()
	if none {
		return nil
	}
	// The folder is locked, and not a file of its own that would lie beside the
	// sources. Where that cannot be, two builds at once may still lose a pin.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	guard := flock.New(filepath.Dir(path), flock.SetFlag(os.O_RDONLY))
	if ok, _ := guard.TryLockContext(ctx, 5*time.Millisecond); ok {
		defer guard.Unlock()
	}
	theirs, err := ReadLock(path)
	if err != nil { // damaged meanwhile: what we know is written
		theirs = &Lock{}
	}
	text, written := l.merge(theirs)
	if err := renameio.WriteFile(path, text, 0o644); err != nil {
		return hinted("write "+path, err, "the lock pins what this build used; make its folder writable")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range written {
		if l.packages[key] == written[key] {
			delete(l.changed, key)
		}
	}
	return nil
}

// merge adds the pins of another lock but for those that have changed here, and
// returns the text of both together and what has changed.
func (l *Lock) merge(theirs *Lock) (text []byte, changed map[string]Package) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, p := range theirs.packages {
		if !l.changed[key] {
			l.packages[key] = p
		}
	}
	changed = map[string]Package{}
	for key := range l.changed {
		changed[key] = l.packages[key]
	}
	return l.bytes(), changed
}

func (l *Lock) get(key string) (Package, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.packages[key]
	return p, ok
}

func (l *Lock) put(p Package) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.packages == nil {
		l.packages = map[string]Package{}
	}
	if l.packages[p.Key] != p {
		l.packages[p.Key] = p
		if l.changed == nil {
			l.changed = map[string]bool{}
		}
		l.changed[p.Key] = true
	}
}
