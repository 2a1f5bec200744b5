package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// disk is the only way the store changes the file system, so that a test can
// stop it, or fill it up, before any single step.
type disk struct {
	tmp   string
	fault func(op, path string) error
}

func (d *disk) step(op, path string) error {
	if d.fault == nil {
		return nil
	}
	if err := d.fault(op, path); err != nil {
		return &fs.PathError{Op: op, Path: path, Err: err}
	}
	return nil
}

// tempFile is a file that nobody can see yet. Either commit gives it its name,
// or discard removes it.
type tempFile struct {
	d    *disk
	f    *os.File
	done bool
}

func (d *disk) temp() (*tempFile, error) {
	if err := d.step("create", d.tmp); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(d.tmp, "new-*")
	if err != nil {
		return nil, err
	}
	return &tempFile{d: d, f: f}, nil
}

func (t *tempFile) Write(p []byte) (int, error) {
	if err := t.d.step("write", t.f.Name()); err != nil {
		return 0, err
	}
	return t.f.Write(p)
}

// commit makes the bytes durable and then visible under path.
func (t *tempFile) commit(path string) error {
	if t.done {
		return errors.New("temporary file used twice")
	}
	if err := t.d.step("sync", t.f.Name()); err != nil {
		return err
	}
	if err := t.f.Sync(); err != nil {
		return err
	}
	return t.place(path)
}

// place makes the bytes visible under path. They survive a kill, but perhaps
// not a loss of power, so it is for what is checked before it is used.
func (t *tempFile) place(path string) error {
	if err := t.d.mkdir(filepath.Dir(path)); err != nil {
		return err
	}
	if err := t.f.Close(); err != nil {
		return err
	}
	if err := t.d.step("rename", path); err != nil {
		return err
	}
	if err := os.Rename(t.f.Name(), path); err != nil {
		return err
	}
	t.done = true
	return t.d.syncDir(filepath.Dir(path))
}

// discard is safe to call after commit, so it can be deferred.
func (t *tempFile) discard() {
	if t.done {
		return
	}
	t.done = true
	t.f.Close()
	os.Remove(t.f.Name())
}

func (d *disk) writeFile(path string, data []byte, mode os.FileMode) error {
	t, err := d.temp()
	if err != nil {
		return err
	}
	defer t.discard()
	if err := t.f.Chmod(mode); err != nil {
		return err
	}
	if _, err := t.Write(data); err != nil {
		return err
	}
	return t.commit(path)
}

// mkdir makes path and its parents, each durable in its own parent.
func (d *disk) mkdir(path string) error {
	if fi, err := os.Stat(path); err == nil {
		if !fi.IsDir() {
			return fmt.Errorf("%s is a file, not a folder: %w", filepath.Base(path), ErrExists)
		}
		return nil
	}
	parent := filepath.Dir(path)
	if parent == path {
		return fmt.Errorf("make folder %s: no such root", path)
	}
	if err := d.mkdir(parent); err != nil {
		return err
	}
	if err := d.step("mkdir", path); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.syncDir(parent)
}

func (d *disk) remove(path string) error {
	if err := d.step("remove", path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	return d.syncDir(filepath.Dir(path))
}

func (d *disk) syncDir(path string) error {
	if err := d.step("syncdir", path); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
