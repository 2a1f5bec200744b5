package store

import (
	"errors"
	"fmt"
	"strings"
)

// Entry is a file or folder at a revision.
type Entry struct {
	Path string
	Dir  bool
	// ID is the git id: of the blob, of the pointer, or of the folder's tree.
	ID ID
	// Size is that of the real content; zero until Detail and for folders.
	Size int64
	// LFS is set by Detail for files whose bytes are an LFS object.
	LFS *Pointer
	// PointerSize is the length of the pointer file of an LFS file.
	PointerSize int64
}

// ETag names the content: SHA-256 for LFS files, the git id for others.
func (e Entry) ETag() string {
	if e.LFS != nil {
		return e.LFS.SHA256
	}
	return e.ID.String()
}

func (r *Repo) tree(id ID) ([]TreeEntry, error) {
	data, err := r.objs.read(id, TreeObject)
	if err != nil {
		return nil, err
	}
	return decodeTree(data)
}

// Stat finds one path of a commit, with its details.
func (r *Repo) Stat(commit ID, path string) (Entry, error) {
	c, err := r.Commit(commit)
	if err != nil {
		return Entry{}, err
	}
	e, err := r.find(c.Tree, path)
	if err != nil {
		return e, err
	}
	return e, r.Detail(&e)
}

// find walks down one path without details; the empty path is the root.
func (r *Repo) find(tree ID, path string) (Entry, error) {
	cur := Entry{Dir: true, ID: tree}
	if path == "" {
		return cur, nil
	}
	if CheckPath(path) != nil {
		return cur, fmt.Errorf("%s: %w", clip(path), ErrEntryNotFound)
	}
	for seg := range strings.SplitSeq(path, "/") {
		if !cur.Dir {
			return cur, fmt.Errorf("%s: %w", clip(path), ErrEntryNotFound)
		}
		list, err := r.tree(cur.ID)
		if err != nil {
			return cur, err
		}
		found := false
		for _, e := range list {
			if e.Name == seg {
				cur, found = Entry{Path: path, Dir: e.Dir, ID: e.ID}, true
			}
		}
		if !found {
			return cur, fmt.Errorf("%s: %w", clip(path), ErrEntryNotFound)
		}
	}
	return cur, nil
}

// List lists a folder of a commit in git's order, with everything below it if
// recursive; details are left to Detail. The empty path is the root.
func (r *Repo) List(commit ID, path string, recursive bool) ([]Entry, error) {
	c, err := r.Commit(commit)
	if err != nil {
		return nil, err
	}
	at, err := r.find(c.Tree, path)
	if err != nil {
		return nil, err
	}
	if !at.Dir {
		return nil, fmt.Errorf("%s is a file: %w", clip(path), ErrEntryNotFound)
	}
	if path != "" {
		path += "/"
	}
	return r.walk(nil, at.ID, path, recursive)
}

func (r *Repo) walk(out []Entry, tree ID, prefix string, recursive bool) ([]Entry, error) {
	list, err := r.tree(tree)
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		out = append(out, Entry{Path: prefix + e.Name, Dir: e.Dir, ID: e.ID})
		if e.Dir && recursive {
			if out, err = r.walk(out, e.ID, prefix+e.Name+"/", true); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// maxPointer is longer than any pointer file.
const maxPointer = 160

// Detail fills in Size and LFS.
func (r *Repo) Detail(e *Entry) error {
	if e.Dir {
		return nil
	}
	n, err := r.objs.size(e.ID)
	if err != nil {
		return err
	}
	e.Size = n
	if n > maxPointer {
		return nil
	}
	data, err := r.Blob(e.ID)
	if err != nil {
		return err
	}
	p, ok := ParsePointer(data)
	if !ok {
		return nil
	}
	// A file that merely looks like a pointer is just a file.
	if size, err := r.LFSSize(p.SHA256); errors.Is(err, ErrNoObject) || err == nil && size != p.Size {
		return nil
	} else if err != nil {
		return err
	}
	e.LFS, e.Size, e.PointerSize = &p, p.Size, n
	return nil
}

// LastChanges maps each path to the newest commit, from at back along first
// parents, that gave it its present content.
func (r *Repo) LastChanges(at ID, entries []Entry) (map[string]*Commit, error) {
	last := map[string]*Commit{}
	open := map[string]ID{}
	for _, e := range entries {
		open[e.Path] = e.ID
	}
	c, err := r.Commit(at)
	for err == nil && len(open) > 0 {
		var parent *Commit
		if len(c.Parents) > 0 {
			if parent, err = r.Commit(c.Parents[0]); err != nil {
				break
			}
		}
		for path, id := range open {
			if parent != nil {
				if e, ferr := r.find(parent.Tree, path); ferr == nil && e.ID == id {
					continue
				}
			}
			last[path] = c
			delete(open, path)
		}
		if parent == nil {
			break
		}
		c = parent
	}
	return last, err
}
