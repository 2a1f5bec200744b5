package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// Disk is a cache in a folder. Its methods may be called by many goroutines.
type Disk struct {
	dir     string
	lock    *flock.Flock
	scratch *scratch
	// writer wraps every file that is written; tests make disks full with it.
	writer func(io.Writer) io.Writer
	now    func() time.Time

	mu       sync.Mutex
	verified map[action.Digest]bool // guarded by mu; blobs whose hash this process has checked
}

var _ action.Sink = (*Disk)(nil)

// ErrMiss is what Result returns when there is nothing to use. The error that
// wraps it says why.
var ErrMiss = errors.New("not in the cache")

// Open makes the folder where it is missing and joins those who use it. It
// fails when nothing can be written there, and waits while Alone keeps others
// out. Close lets Trim in again.
func Open(ctx context.Context, dir string) (*Disk, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	d := &Disk{dir: dir, writer: func(w io.Writer) io.Writer { return w }, now: time.Now, verified: map[action.Digest]bool{}}
	for _, sub := range []string{"cas", "ac", "scratch"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o777); err != nil {
			return nil, fmt.Errorf("open the build cache: %w; choose another place with --store or THOXBUILD_STORE", err)
		}
	}
	d.lock = flock.New(filepath.Join(dir, "lock"), flock.SetPermissions(0o666)) // the umask decides who shares it
	if _, err := d.lock.TryRLockContext(ctx, 50*time.Millisecond); err != nil {
		return nil, fmt.Errorf("open the build cache %s: %w", dir, err)
	}
	if d.scratch, err = newScratch(filepath.Join(dir, "scratch")); err != nil {
		d.lock.Unlock()
		return nil, fmt.Errorf("open the build cache: %w; choose another place with --store or THOXBUILD_STORE", err)
	}
	return d, nil
}

// Dir is the folder that Open was given, made absolute.
func (d *Disk) Dir() string { return d.dir }

// Scratch is a folder of this process alone on the cache's file system. It is
// gone after Close, or with the next Open when the process was killed.
func (d *Disk) Scratch() string { return d.scratch.dir }

// Close leaves the cache.
func (d *Disk) Close() error {
	return errors.Join(d.scratch.close(), d.lock.Unlock())
}

// path is where an entry of a kind lies. Two hex digits fan the entries out.
func (d *Disk) path(kind string, dg action.Digest) string {
	h := dg.Hex()
	return filepath.Join(d.dir, kind, h[:2], h)
}

// commit writes a file for good: what fill writes goes to a temporary file,
// which is synced, made read-only and renamed. A second writer of the same
// content replaces equal bytes with equal bytes.
func (d *Disk) commit(path string, fill func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(d.scratch.dir, "new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err := fill(d.writer(f)); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return d.adopt(f.Name(), path)
}

// adopt renames a finished and synced file into place.
func (d *Disk) adopt(from, to string) error {
	if err := os.Chmod(from, 0o444); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Dir(to), 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return os.Rename(from, to)
}

// touchEvery is how stale an entry's time may be before a use renews it. An
// hour keeps a busy cache from writing an inode per read while Trim works in
// days (the same figures as Go's build cache).
const touchEvery = time.Hour

// touch marks an entry as used. That it fails does not matter: the entry only
// seems older than it is.
func (d *Disk) touch(path string, fi os.FileInfo) {
	if now := d.now(); now.Sub(fi.ModTime()) > touchEvery {
		os.Chtimes(path, now, now)
	}
}
