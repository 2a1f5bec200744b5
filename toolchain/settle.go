package toolchain

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// An entry is hundreds of megabytes in thousands of files. Who makes it does
// not wait until the disk has them: it is used at once, and its files are
// synced while the compilers run. Only a power cut could lose what was not
// synced yet, and then the entry would have its final name with torn files in
// it. So a mark, which names the boot it was written in, is on the disk before
// the entry has its name, and is removed after the sync. A mark of an earlier
// boot condemns its entry; one of this boot, left by a killed process, only
// tells that the sync is still to be done.
//
// Where a system has no name for its boot, entries are synced before they get
// their names.

// unsettled is the folder of the marks, one file per entry.
func (s *Store) unsettled(name string) string { return filepath.Join(s.dir, "unsettled", name) }

// mark says that an entry, whose lock is held, may get its name before it is
// synced. The mark stays locked until it is removed, so that nobody on another
// machine takes its boot for an earlier one. Nil means that marks are not used.
func (s *Store) mark(ctx context.Context, name string) (*flock.Flock, error) {
	boot := s.bootID()
	if boot == "" {
		return nil, nil
	}
	path := s.unsettled(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	lock := flock.New(path, flock.SetPermissions(sharedFile))
	if ok, err := lock.TryLockContext(ctx, 50*time.Millisecond); err != nil || !ok {
		return nil, errors.Join(err, ctx.Err())
	}
	if err := writeSynced(path, boot); err != nil {
		lock.Unlock()
		return nil, err
	}
	return lock, nil
}

func writeSynced(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, sharedFile)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// settle syncs an entry that has its name and removes its mark, in the
// background. Entries that come while a sync runs share the next one. The
// entry's own lock must be free.
func (s *Store) settle(name string, mark *flock.Flock) {
	s.settleMu.Lock()
	defer s.settleMu.Unlock()
	if s.marks == nil {
		s.marks = map[string]*flock.Flock{}
	}
	s.marks[name] = mark
	if s.settling {
		return
	}
	s.settling = true
	s.syncs.Go(func() {
		for {
			s.settleMu.Lock()
			marks := s.marks
			s.marks = nil
			s.settling = len(marks) > 0
			s.settleMu.Unlock()
			if len(marks) == 0 {
				return
			}
			synced := syncFS(s.dir)
			for name, mark := range marks {
				if synced {
					s.unmark(name)
				}
				mark.Unlock()
			}
		}
	})
}

// unmark removes a mark that this process holds. Marks are made and removed
// under the lock of their entry; where somebody has it, the mark stays for the
// next Open.
func (s *Store) unmark(name string) {
	lock := s.lockOf(name)
	if ok, err := lock.TryLock(); err != nil || !ok {
		return
	}
	defer lock.Unlock()
	os.Remove(s.unsettled(name))
}

// recover deals with the marks that other processes left.
func (s *Store) recover() error {
	left, err := os.ReadDir(filepath.Join(s.dir, "unsettled"))
	if err != nil {
		return nil // nothing was ever marked
	}
	for _, f := range left {
		if err := s.recoverOne(f.Name()); err != nil {
			return s.writeError("remove "+f.Name()+", which a power cut may have torn", err)
		}
	}
	return nil
}

func (s *Store) recoverOne(name string) error {
	lock := s.lockOf(name)
	if ok, err := lock.TryLock(); err != nil || !ok {
		return nil // being made
	}
	defer lock.Unlock()
	mark := flock.New(s.unsettled(name), flock.SetPermissions(sharedFile))
	if ok, err := mark.TryLock(); err != nil || !ok {
		return nil // being synced
	}
	was, err := os.ReadFile(s.unsettled(name))
	if err == nil && s.has(name) && string(was) == s.bootID() {
		lock.Unlock()
		s.settle(name, mark)
		return nil
	}
	defer mark.Unlock()
	if s.has(name) {
		if err := s.discard(name); err != nil {
			return err
		}
	}
	return os.Remove(s.unsettled(name))
}

// prunedPrefix begins the names of entries on their way out.
const prunedPrefix = "pruned-"

// discard removes an entry whose lock is held. It is moved first: one that is
// half removed must not look whole.
func (s *Store) discard(name string) error {
	s.sweep(prunedPrefix + name)
	gone, err := os.MkdirTemp(filepath.Join(s.dir, "tmp"), prunedPrefix+name+".")
	if err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(s.dir, "tools", name), filepath.Join(gone, name)); err != nil {
		return err
	}
	return os.RemoveAll(gone)
}
