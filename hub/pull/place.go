package pull

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/source"
)

// placed reports whether a variant's folder in a cache holds exactly the links
// that place would make. Then a program that loads it meanwhile sees no change.
func (t *target) placed(name string, files []client.Entry, sums []source.Sums) bool {
	dir := filepath.Join(t.final, name)
	want := map[string]string{}
	for i, e := range files {
		path := filepath.Join(dir, filepath.FromSlash(source.Within(e)))
		rel, err := filepath.Rel(filepath.Dir(path), filepath.Join(t.blobs, sums[i].ETag(e)))
		if err != nil {
			return false
		}
		want[path] = rel
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && e.Name() == "__pycache__": // Python's own
			return fs.SkipDir
		case e.IsDir():
			return nil
		}
		if to, err := os.Readlink(path); err != nil || to != want[path] {
			return fs.ErrInvalid
		}
		delete(want, path)
		return nil
	})
	return err == nil && len(want) == 0
}

// place makes the variant's folder out of blobs and renames it into place.
func (t *target) place(name string, files []client.Entry, sums []source.Sums) error {
	if t.layout == Cache && t.placed(name, files, sums) {
		return nil
	}
	dir := filepath.Join(t.stage, name)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for i, e := range files {
		path := filepath.Join(dir, filepath.FromSlash(source.Within(e)))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		blob := filepath.Join(t.blobs, sums[i].ETag(e))
		if t.layout == Plain {
			if err := linkOrCopy(blob, path); err != nil {
				return err
			}
			continue
		}
		rel, err := filepath.Rel(filepath.Dir(path), blob)
		if err != nil {
			return err
		}
		if err := os.Symlink(rel, path); err != nil {
			return err
		}
	}
	return swap(dir, filepath.Join(t.final, name), filepath.Join(t.stage, ".old-"+name))
}

// linkOrCopy gives a file a second name; two names in one folder tree cost
// nothing and the blob's goes at the end.
func linkOrCopy(from, to string) error {
	if err := os.Link(from, to); err == nil {
		return nil
	}
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}

// swap puts the new folder where the old one is. Between the two renames the
// variant is missing, never mixed.
func swap(from, to, old string) error {
	if err := os.RemoveAll(old); err != nil {
		return err
	}
	if err := os.Rename(to, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return os.RemoveAll(old)
}
