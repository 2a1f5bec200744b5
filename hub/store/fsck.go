package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Finding is one thing that fsck found wrong.
type Finding struct {
	// Repo is the repository, as type and id, or empty for the store itself.
	Repo string `json:"repo,omitempty"`
	What string `json:"what"`
}

func (f Finding) String() string {
	if f.Repo == "" {
		return f.What
	}
	return f.Repo + ": " + f.What
}

// FsckReport is what Fsck looked at and what it found.
type FsckReport struct {
	Repos    int       `json:"repos"`
	Commits  int       `json:"commits"`
	Objects  int       `json:"objects"`
	LFS      int       `json:"lfs"`
	LFSBytes int64     `json:"lfsBytes"`
	Findings []Finding `json:"findings"`
}

// Fsck reads everything that a reference reaches, and every LFS object, and
// compares it with its name. It changes nothing.
func (s *Store) Fsck(ctx context.Context) (*FsckReport, error) {
	rep := &FsckReport{Findings: []Finding{}}
	for _, info := range s.List() {
		rep.Repos++
		name := string(info.Type) + " " + info.ID
		found := func(format string, args ...any) {
			rep.Findings = append(rep.Findings, Finding{name, fmt.Sprintf(format, args...)})
		}
		r, err := s.RepoByUID(info.UID)
		if err != nil {
			found("cannot be opened: %v", err)
			continue
		}
		if err := r.fsck(ctx, rep, found); err != nil {
			return rep, err
		}
	}
	return rep, nil
}

func (r *Repo) fsck(ctx context.Context, rep *FsckReport, found func(string, ...any)) error {
	seen, err := r.reach(ctx, found)
	if err != nil {
		return err
	}
	rep.Objects += len(seen.objects)
	rep.Commits += seen.commits
	if seen.refs["refs/heads/main"].IsZero() {
		found("branch main is missing")
	}
	for sha, p := range seen.lfs {
		if n, err := r.LFSSize(sha); err != nil || n != p.Size {
			found("LFS object %s of %d bytes is missing or has another size", sha, p.Size)
		}
	}
	return r.eachLFS(func(path, sha string, size int64) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		rep.LFS++
		rep.LFSBytes += size
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		h := newHash()
		if _, err := io.Copy(h, f); err != nil {
			return err
		}
		if got := fmt.Sprintf("%x", h.Sum(nil)); got != sha {
			found("LFS object %s has the content %s", sha, got)
		}
		return nil
	})
}

// eachLFS visits the LFS objects on disk.
func (r *Repo) eachLFS(visit func(path, sha string, size int64) error) error {
	return filepath.WalkDir(filepath.Join(r.dir, "lfs", "objects"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		return visit(path, d.Name(), fi.Size())
	})
}

// reached is what the references of a repository hold on to.
type reached struct {
	refs    map[string]ID
	objects map[ID]Kind
	lfs     map[string]Pointer
	commits int
}

// reach walks from all references. Each object is checked against its id on
// the way; with found nil the first fault ends the walk.
func (r *Repo) reach(ctx context.Context, found func(string, ...any)) (*reached, error) {
	w := &reached{refs: map[string]ID{}, objects: map[ID]Kind{}, lfs: map[string]Pointer{}}
	tell := func(format string, args ...any) error {
		err := fmt.Errorf(format, args...)
		if found == nil {
			return err
		}
		found("%v", err)
		return nil
	}
	var todo []ID
	for _, ns := range []string{"refs/heads/", "refs/tags/", "refs/pr/"} {
		refs, err := r.Refs(ns)
		if err != nil {
			if err := tell("%w", err); err != nil {
				return nil, err
			}
		}
		for _, ref := range refs {
			w.refs[ref.Name] = ref.Target
			todo = append(todo, ref.Target)
		}
	}
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if _, ok := w.objects[id]; ok {
			continue
		}
		w.objects[id] = CommitObject
		c, err := r.Commit(id)
		if err == nil {
			w.commits++
			todo = append(todo, c.Parents...)
			err = w.tree(ctx, r, c.Tree, tell)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			if err := tell("commit %s: %w", id, err); err != nil {
				return nil, err
			}
		}
	}
	return w, nil
}

func (w *reached) tree(ctx context.Context, r *Repo, id ID, tell func(string, ...any) error) error {
	if _, ok := w.objects[id]; ok {
		return nil
	}
	w.objects[id] = TreeObject
	list, err := r.tree(id)
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		if CheckPath(e.Name) != nil || strings.Contains(e.Name, "/") {
			err = fmt.Errorf("tree %s holds the name %q: %w", id, e.Name, ErrCorrupt)
		} else if e.Dir {
			err = w.tree(ctx, r, e.ID, tell)
		} else {
			err = w.blob(r, e.ID)
		}
		if err != nil {
			if err := tell("%s: %w", e.Name, err); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *reached) blob(r *Repo, id ID) error {
	if _, ok := w.objects[id]; ok {
		return nil
	}
	w.objects[id] = BlobObject
	data, err := r.Blob(id)
	if err != nil {
		return err
	}
	if p, ok := ParsePointer(data); ok {
		// Only what the store wrote as LFS must have its object; a pointer
		// that a user committed as text may dangle, but is then worth a word.
		if _, err := r.LFSSize(p.SHA256); errors.Is(err, ErrNoObject) {
			return fmt.Errorf("pointer %s to the LFS object %s: %w", id, p.SHA256, err)
		}
		w.lfs[p.SHA256] = p
	}
	return nil
}
