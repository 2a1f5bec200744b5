package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/hub/client"
)

// Folder is a directory that holds build/ with the variants, or a snapshot of
// a Hub cache.
type Folder struct {
	Dir string
	// Commit is the revision that the folder is said to hold, or empty.
	Commit string
	// Blobs is the only folder outside Dir that links may lead to.
	Blobs string
}

var _ Source = (*Folder)(nil)

// OpenFolder accepts a kernel's folder, a build folder (its parent must then
// hold nothing else that counts) or a variant's parent by any name.
func OpenFolder(dir string) (*Folder, error) {
	st, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return nil, fmt.Errorf("%s: expected a folder", dir)
	}
	return &Folder{Dir: dir}, nil
}

// OpenCache finds a repository's revision in a Hub cache. ref is a commit or a
// name below refs/.
func OpenCache(cache string, repo client.Repo, ref string) (*Folder, error) {
	base := filepath.Join(cache, repo.CacheFolder())
	commit := ref
	if !client.IsCommit(ref) {
		if err := client.CheckPath(ref); err != nil {
			return nil, err
		}
		b, err := os.ReadFile(filepath.Join(base, "refs", filepath.FromSlash(ref)))
		if err != nil {
			return nil, fmt.Errorf("%s is not installed in %s: %w", repo, cache, err)
		}
		commit = strings.TrimSpace(string(b))
		if !client.IsCommit(commit) {
			return nil, fmt.Errorf("%s: refs/%s holds %q, which is not a commit id", base, ref, commit)
		}
	}
	dir := filepath.Join(base, "snapshots", commit)
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("%s@%s is not installed in %s: %w", repo, commit, cache, err)
	}
	return &Folder{Dir: dir, Commit: commit, Blobs: filepath.Join(base, "blobs")}, nil
}

// String implements Source.
func (f *Folder) String() string { return f.Dir }

// Revision implements Source.
func (f *Folder) Revision() string { return f.Commit }

// prefix is empty if the folder has a build/ of its own, else the files below
// it are taken for the content of build/.
func (f *Folder) prefix() string {
	if st, err := os.Stat(filepath.Join(f.Dir, "build")); err == nil && st.IsDir() {
		return ""
	}
	return "build/"
}

// Files implements Source. Bytecode, which importing leaves behind, is not
// listed; links count as the files that they lead to.
func (f *Folder) Files(ctx context.Context) ([]client.Entry, error) {
	prefix := f.prefix()
	var out []client.Entry
	root := f.Dir
	if prefix == "" {
		root = filepath.Join(f.Dir, "build")
	}
	allowed, err := f.roots()
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		rel, err := filepath.Rel(f.Dir, p)
		if err != nil {
			return err
		}
		name := prefix + filepath.ToSlash(rel)
		if e.IsDir() {
			// Folders beside the variants whose names begin with a dot hold what
			// a build says about them.
			if e.Name() == "__pycache__" || filepath.Dir(p) == root && strings.HasPrefix(e.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".pyc") {
			return nil
		}
		target, err := filepath.EvalSymlinks(p)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if !slices.ContainsFunc(allowed, func(root string) bool { return strings.HasPrefix(target, root+string(filepath.Separator)) }) {
			return fmt.Errorf("%s is a link that leaves %s", name, f.Dir)
		}
		st, err := os.Stat(target)
		if err != nil || !st.Mode().IsRegular() {
			return err
		}
		if err := client.CheckPath(name); err != nil {
			return err
		}
		out = append(out, client.Entry{Path: name, Size: st.Size()})
		return nil
	})
	return out, err
}

func (f *Folder) roots() ([]string, error) {
	var out []string
	for _, d := range []string{f.Dir, f.Blobs} {
		if d == "" {
			continue
		}
		real, err := filepath.EvalSymlinks(d)
		if errors.Is(err, fs.ErrNotExist) && d == f.Blobs {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, real)
	}
	return out, nil
}

// Open implements Source.
func (f *Folder) Open(_ context.Context, e client.Entry) (io.ReadCloser, error) {
	if err := client.CheckPath(e.Path); err != nil {
		return nil, err
	}
	return os.Open(filepath.Join(f.Dir, filepath.FromSlash(strings.TrimPrefix(e.Path, f.prefix()))))
}
