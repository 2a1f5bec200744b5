package toolchain

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// Entry is a folder of the store.
type Entry struct {
	Name  string
	Bytes int64
	Used  time.Time
}

// List names the store's entries with their sizes.
func (s *Store) List() ([]Entry, error) {
	dirs, err := os.ReadDir(filepath.Join(s.dir, "tools"))
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, d := range dirs {
		e := Entry{Name: d.Name(), Bytes: treeSize(filepath.Join(s.dir, "tools", d.Name()))}
		if fi, err := d.Info(); err == nil {
			e.Used = fi.ModTime()
		}
		out = append(out, e)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// Prune removes entries that keep does not name, downloads and left-overs of
// killed processes, and reports how many bytes that freed. An entry that
// another process is making is left alone.
func (s *Store) Prune(keep func(name string) bool) (freed int64, err error) {
	entries, err := s.List()
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if keep(e.Name) {
			continue
		}
		lock := s.lockOf(e.Name)
		if ok, err := lock.TryLock(); err != nil || !ok {
			continue
		}
		err := s.discard(e.Name)
		lock.Unlock()
		if err != nil {
			return freed, s.writeError("prune "+e.Name, err)
		}
		freed += e.Bytes
	}
	files, _ := os.ReadDir(filepath.Join(s.dir, "downloads"))
	for _, f := range files {
		if fi, err := f.Info(); err == nil && os.Remove(filepath.Join(s.dir, "downloads", f.Name())) == nil {
			freed += fi.Size()
		}
	}
	left, _ := os.ReadDir(filepath.Join(s.dir, "tmp"))
	for _, d := range left {
		// NAME.RANDOM, or as discard names it.
		name := strings.TrimPrefix(strings.TrimSuffix(d.Name(), filepath.Ext(d.Name())), prunedPrefix)
		lock := s.lockOf(name)
		if ok, err := lock.TryLock(); err != nil || !ok {
			continue
		}
		freed += s.sweep(name) + s.sweep(prunedPrefix+name)
		lock.Unlock()
	}
	return freed, nil
}

// PruneCompilerCaches removes the folders that LocalEnv has named and that were
// made longer ago than age. No command may be running.
func (s *Store) PruneCompilerCaches(age time.Duration) (freed int64, err error) {
	dirs, err := os.ReadDir(filepath.Join(s.dir, "zig-cache"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	for _, d := range dirs {
		fi, err := d.Info()
		if err != nil || time.Since(fi.ModTime()) <= age {
			continue
		}
		dir := filepath.Join(s.dir, "zig-cache", d.Name())
		size := treeSize(dir)
		if err := os.RemoveAll(dir); err != nil {
			return freed, s.writeError("prune "+dir, err)
		}
		freed += size
	}
	return freed, nil
}

// treeSize adds the sizes of the files below a folder.
func treeSize(dir string) (bytes int64) {
	filepath.WalkDir(dir, func(_ string, f fs.DirEntry, err error) error {
		if err == nil && f.Type().IsRegular() {
			if fi, err := f.Info(); err == nil {
				bytes += fi.Size()
			}
		}
		return nil
	})
	return bytes
}
