package store

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Repo is an open repository.
type Repo struct {
	s    *Store
	uid  string
	dir  string
	objs *objects
	// refMu orders the changes of refs and discussions. Readers need no lock,
	// as each file they read changes by rename.
	refMu sync.Mutex
	// keepMu is held for reading from the moment a writer relies on an object
	// to the moment a ref names it, and for writing while GC takes objects.
	keepMu sync.RWMutex
	// uploads are those in parts that are open.
	upMu    sync.Mutex
	uploads map[Upload]*assembly
}

func (s *Store) initRepo(uid string) error {
	dir := s.repoDir(uid)
	for _, sub := range []string{"objects/pack", "objects/info", "refs/heads", "refs/tags", "refs/pr", "lfs/objects", "xorbs", "discussions"} {
		if err := s.disk.mkdir(filepath.Join(dir, filepath.FromSlash(sub))); err != nil {
			return err
		}
	}
	conf := "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n"
	if err := s.disk.writeFile(filepath.Join(dir, "config"), []byte(conf), 0o644); err != nil {
		return err
	}
	return s.disk.writeFile(filepath.Join(dir, "HEAD"), []byte("ref: refs/heads/main\n"), 0o644)
}

func (s *Store) openRepo(uid string) (*Repo, error) {
	dir := s.repoDir(uid)
	r := &Repo{s: s, uid: uid, dir: dir, objs: &objects{dir: filepath.Join(dir, "objects", "pack")}}
	if err := r.objs.reload(); err != nil {
		return nil, err
	}
	return r, r.recover()
}

// attributes is the first file of a repository, as on the Hub.
const attributes = "*.so filter=lfs diff=lfs merge=lfs -text\n*.safetensors filter=lfs diff=lfs merge=lfs -text\n"

func (r *Repo) firstCommit(author string) error {
	st, err := r.Stage()
	if err != nil {
		return err
	}
	defer st.Close()
	id, err := st.AddBlob([]byte(attributes))
	if err != nil {
		return err
	}
	_, err = st.Commit(CommitRequest{
		Ref: "refs/heads/main", Create: true, Author: author, Time: time.Now(), Summary: "initial commit",
		Ops: []Op{{Kind: PutFile, Path: ".gitattributes", Blob: id}},
	})
	return err
}

// Info describes the repository as it is now.
func (r *Repo) Info() Info { return r.s.info(r.uid) }

// UID names the repository's directory and never changes.
func (r *Repo) UID() string { return r.uid }

// GitDir is the bare git directory.
func (r *Repo) GitDir() string { return r.dir }

// Commit reads a commit.
func (r *Repo) Commit(id ID) (*Commit, error) {
	data, err := r.objs.read(id, CommitObject)
	if err != nil {
		return nil, err
	}
	return decodeCommit(id, data)
}

// Blob reads a blob of at most 256 MiB.
func (r *Repo) Blob(id ID) ([]byte, error) { return r.objs.read(id, BlobObject) }

// Log lists at most limit commits from rev back along first parents, after
// skipping skip of them; more says that there are others.
func (r *Repo) Log(from ID, skip, limit int) (list []*Commit, more bool, err error) {
	for id := from; !id.IsZero(); {
		c, err := r.Commit(id)
		if err != nil {
			return nil, false, err
		}
		if skip > 0 {
			skip--
		} else if len(list) == limit {
			return list, true, nil
		} else {
			list = append(list, c)
		}
		id = ID{}
		if len(c.Parents) > 0 {
			id = c.Parents[0]
		}
	}
	return list, false, nil
}

// Resolve finds the commit that a revision names: a full ref, a commit id, a
// branch, a tag or at least five digits of a commit id, tried in this order.
func (r *Repo) Resolve(rev string) (ID, error) {
	missing := fmt.Errorf("invalid rev id: %s: %w", clip(rev), ErrRevisionNotFound)
	if strings.HasPrefix(rev, "refs/") {
		if id, err := r.ref(rev); err == nil {
			return id, nil
		}
		return ID{}, missing
	}
	if len(rev) == 40 && isHex(rev) {
		id, err := ParseID(rev)
		if err != nil {
			return ID{}, missing
		}
		if _, err := r.Commit(id); err != nil {
			return ID{}, missing
		}
		return id, nil
	}
	for _, ns := range []string{"refs/heads/", "refs/tags/"} {
		if id, err := r.ref(ns + rev); err == nil {
			return id, nil
		}
	}
	if len(rev) >= 5 && len(rev) < 40 && isHex(rev) {
		var found []ID
		for _, id := range r.objs.byPrefix(rev) {
			if _, err := r.Commit(id); err == nil {
				found = append(found, id)
			}
		}
		if len(found) == 1 {
			return found[0], nil
		}
	}
	return ID{}, missing
}
