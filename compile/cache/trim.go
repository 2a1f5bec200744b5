package cache

import (
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

// Trim removes entries that no build has used for maxAge. It fails when a
// build is running: that build may be about to use what would go.
func (d *Disk) Trim(maxAge time.Duration) (Trimmed, error) {
	var t Trimmed
	// Our own shared lock would stand in the way of the exclusive one.
	if err := d.lock.Unlock(); err != nil {
		return t, err
	}
	defer d.lock.RLock()
	ok, err := d.lock.TryLock()
	if err != nil {
		return t, fmt.Errorf("trim the build cache: %w", err)
	}
	if !ok {
		return t, fmt.Errorf("trim the build cache: a build is using it; try again when it has ended")
	}
	defer d.lock.Unlock()
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
			return t, fmt.Errorf("trim the build cache: %w", err)
		}
	}
	return t, nil
}

func olderThanAMinute(fi os.FileInfo) bool { return time.Since(fi.ModTime()) > time.Minute }
