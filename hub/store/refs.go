package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// Ref is a name and the commit it points to.
type Ref struct {
	// Name is the full name, such as refs/heads/v1.
	Name   string
	Target ID
}

// Short is the name without refs/heads/, refs/tags/ or refs/pr/.
func (r Ref) Short() string {
	_, rest, _ := strings.Cut(strings.TrimPrefix(r.Name, "refs/"), "/")
	return rest
}

// checkRef accepts only names below the three folders that the store keeps.
func checkRef(name string) error {
	for _, ns := range []string{"refs/heads/", "refs/tags/"} {
		if short, ok := strings.CutPrefix(name, ns); ok {
			return CheckName(short)
		}
	}
	if short, ok := strings.CutPrefix(name, "refs/pr/"); ok {
		if n, err := strconv.Atoi(short); err == nil && n > 0 && strconv.Itoa(n) == short {
			return nil
		}
	}
	return fmt.Errorf("%w reference %q", ErrInvalid, clip(name))
}

func (r *Repo) refPath(name string) string { return filepath.Join(r.dir, filepath.FromSlash(name)) }

// ref reads one reference by its full name.
func (r *Repo) ref(name string) (ID, error) {
	if err := checkRef(name); err != nil {
		return ID{}, err
	}
	b, err := os.ReadFile(r.refPath(name))
	if err != nil {
		return ID{}, fmt.Errorf("invalid rev id: %s: %w", clip(name), ErrRevisionNotFound)
	}
	id, err := ParseID(strings.TrimSpace(string(b)))
	if err != nil {
		return ID{}, fmt.Errorf("%w reference %s: %w", ErrCorrupt, name, err)
	}
	return id, nil
}

// setRef points a reference to a commit. r.refMu is held.
func (r *Repo) setRef(name string, id ID) error {
	if err := checkRef(name); err != nil {
		return err
	}
	path := r.refPath(name)
	// A branch a/b that is gone may have left the empty folder a behind.
	if fi, err := os.Stat(path); err == nil && fi.IsDir() {
		if err := removeEmpty(path); err != nil {
			return fmt.Errorf("reference %s: names below it exist: %w", name, ErrExists)
		}
	}
	return r.s.disk.writeFile(path, []byte(id.String()+"\n"), 0o644)
}

// removeEmpty removes a tree of folders that holds no file.
func removeEmpty(dir string) error {
	ents, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range ents {
		if !e.IsDir() {
			return fs.ErrExist
		}
		if err := removeEmpty(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return os.Remove(dir)
}

// Refs lists the references below prefix, such as refs/heads/, by name.
func (r *Repo) Refs(prefix string) ([]Ref, error) {
	var refs []Ref
	root := r.refPath(strings.TrimSuffix(prefix, "/"))
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // deleted meanwhile
			}
			return err
		}
		rel, err := filepath.Rel(r.dir, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		id, err := r.ref(name)
		if errors.Is(err, ErrRevisionNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		refs = append(refs, Ref{Name: name, Target: id})
		return nil
	})
	sort.Slice(refs, func(i, j int) bool { return refs[i].Name < refs[j].Name })
	return refs, err
}

// CreateRef makes a new branch or tag at a commit.
func (r *Repo) CreateRef(name string, at ID) error {
	if err := checkRef(name); err != nil {
		return err
	}
	r.keepMu.RLock()
	defer r.keepMu.RUnlock()
	r.refMu.Lock()
	defer r.refMu.Unlock()
	if _, err := r.ref(name); err == nil {
		return fmt.Errorf("reference %s: %w", name, ErrExists)
	}
	if _, err := r.Commit(at); err != nil {
		return err
	}
	return r.setRef(name, at)
}

// DeleteRef removes a branch or tag; main stays for ever.
func (r *Repo) DeleteRef(name string) error {
	if name == "refs/heads/main" {
		return fmt.Errorf("cannot delete %s: %w", name, ErrForbidden)
	}
	r.refMu.Lock()
	defer r.refMu.Unlock()
	if _, err := r.ref(name); err != nil {
		return err
	}
	if err := r.s.disk.remove(r.refPath(name)); err != nil {
		return err
	}
	for dir := filepath.Dir(r.refPath(name)); strings.Count(filepath.ToSlash(dir[len(r.dir):]), "/") > 2; dir = filepath.Dir(dir) {
		if os.Remove(dir) != nil {
			break
		}
	}
	return nil
}
