package cache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// scratch is a process's own folder for files on their way. The lock beside it
// is held as long as the process lives, so that another one can tell a folder
// in use from one that a killed process left.
type scratch struct {
	dir  string
	lock *flock.Flock
}

func newScratch(parent string) (*scratch, error) {
	sweep(parent)
	// The lock file exists and is locked before the folder does.
	f, err := os.CreateTemp(parent, "p*.lock")
	if err != nil {
		return nil, err
	}
	f.Close()
	s := &scratch{strings.TrimSuffix(f.Name(), ".lock"), flock.New(f.Name())}
	if ok, err := s.lock.TryLock(); err != nil || !ok {
		return nil, fmt.Errorf("lock %s: %w", f.Name(), errors.Join(err, errors.New("taken by another process")))
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *scratch) close() error {
	return errors.Join(os.RemoveAll(s.dir), os.Remove(s.lock.Path()), s.lock.Unlock())
}

// sweep removes what killed processes left. A lock that can be taken is
// nobody's. Between CreateTemp and TryLock of another process there is a
// moment in which its lock file can be swept; that process then holds a lock
// on a file without a name, and at worst loses an empty claim to its folder,
// so the sweep leaves files younger than a minute alone.
func sweep(parent string) {
	locks, _ := filepath.Glob(filepath.Join(parent, "p*.lock"))
	for _, name := range locks {
		fi, err := os.Stat(name)
		if err != nil || !olderThanAMinute(fi) {
			continue
		}
		l := flock.New(name)
		if ok, err := l.TryLock(); err != nil || !ok {
			continue
		}
		// Without its lock nobody would find the folder again: where a compiler
		// that outlived its build still writes there, both stay.
		if os.RemoveAll(strings.TrimSuffix(name, ".lock")) == nil {
			os.Remove(name)
		}
		l.Unlock()
	}
}
