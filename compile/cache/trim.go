package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Trimmed says what Trim removed and left.
type Trimmed struct {
	Removed, Kept           int
	RemovedBytes, KeptBytes int64
}

// ErrInUse is what Alone returns while a build uses the cache.
var ErrInUse = errors.New("a build is using the cache; try again when it has ended")

// Alone runs fn while no build uses the cache, and keeps others waiting until
// fn has ended. It fails with ErrInUse when one is running: that build may be
// about to use what fn removes.
func (d *Disk) Alone(fn func() error) error {
	// Our own shared lock would stand in the way of the exclusive one.
	if err := d.lock.Unlock(); err != nil {
		return err
	}
	defer d.lock.RLock()
	ok, err := d.lock.TryLock()
	if err != nil {
		return err
	}
	if !ok {
		return ErrInUse
	}
	defer d.lock.Unlock()
	return fn()
}

// Trim removes entries that no build has used for maxAge. It fails when a
// build is running.
func (d *Disk) Trim(maxAge time.Duration) (t Trimmed, err error) {
	err = d.Alone(func() error { return d.trim(maxAge, &t) })
	if err != nil {
		err = fmt.Errorf("trim the build cache: %w", err)
	}
	return t, err
}

func (d *Disk) trim(maxAge time.Duration, t *Trimmed) error {
	cutoff := d.now().Add(-maxAge)
	for _, kind := range []string{"ac", "cas"} { // index first: never an entry without its data
		err := filepath.WalkDir(filepath.Join(d.dir, kind), func(p string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			fi, err := e.Info()
			if err != nil {
				return err
			}
			if fi.ModTime().After(cutoff) {
				t.Kept++
				t.KeptBytes += fi.Size()
				return nil
			}
			t.Removed++
			t.RemovedBytes += fi.Size()
			return os.Remove(p)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func olderThanAMinute(fi os.FileInfo) bool { return time.Since(fi.ModTime()) > time.Minute }
