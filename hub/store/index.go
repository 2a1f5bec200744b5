package store

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Type is the kind of a repository as URLs have it, in the singular.
type Type string

// The types that the Hub knows.
const (
	Model   Type = "model"
	Kernel  Type = "kernel"
	Dataset Type = "dataset"
	Space   Type = "space"
)

// Types lists them all.
var Types = []Type{Model, Kernel, Dataset, Space}

// index is the one file that says which repositories exist, so that creating,
// moving and deleting one is one rename.
type index struct {
	Repos []Info  `json:"repos"`
	Moved []moved `json:"moved,omitempty"`
}

type moved struct {
	Type Type   `json:"type"`
	From string `json:"from"`
	UID  string `json:"uid"`
}

// Info describes a repository.
type Info struct {
	Type Type `json:"type"`
	// ID is namespace/name.
	ID string `json:"id"`
	// UID names the repository's directory and never changes.
	UID       string    `json:"uid"`
	Private   bool      `json:"private,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	// CAS is the identity of the repository's chunk store as clients cache it.
	// It changes when a chunk is taken away, never otherwise.
	CAS string `json:"cas"`
}

// Namespace is the part of the ID before the slash.
func (i Info) Namespace() string { ns, _, _ := strings.Cut(i.ID, "/"); return ns }

// reserved cannot be namespaces, as their paths mean something else.
var reserved = []string{"api", "kernels", "models", "datasets", "spaces", "v1", "v2"}

// CheckRepoID checks namespace/name.
func CheckRepoID(id string) error {
	ns, name, ok := strings.Cut(id, "/")
	if !ok {
		return fmt.Errorf("%w repository id %q: want namespace/name", ErrInvalid, clip(id))
	}
	if err := CheckRepoName(ns); err != nil {
		return err
	}
	if slices.Contains(reserved, strings.ToLower(ns)) {
		return fmt.Errorf("%w repository id %q: the namespace is reserved", ErrInvalid, id)
	}
	return CheckRepoName(name)
}

func (x *index) find(t Type, id string) int {
	return slices.IndexFunc(x.Repos, func(i Info) bool { return i.Type == t && i.ID == id })
}

func (x *index) findUID(uid string) int {
	return slices.IndexFunc(x.Repos, func(i Info) bool { return i.UID == uid })
}

func (x *index) clone() index {
	return index{Repos: slices.Clone(x.Repos), Moved: slices.Clone(x.Moved)}
}

// setIndex makes next the index on disk and then in memory. s.mu is held.
func (s *Store) setIndex(next index) error {
	if err := s.writeJSON("index.json", next, 0o644); err != nil {
		return err
	}
	s.index = next
	return nil
}

// CreateOptions describe a new repository.
type CreateOptions struct {
	Private bool
	// Author signs the first commit.
	Author string
	// Empty leaves main unborn, for an import that brings its own history.
	Empty bool
}

// Create makes a repository whose main has one commit. It fails with ErrExists
// when the name is taken.
func (s *Store) Create(t Type, id string, opts CreateOptions) (*Repo, error) {
	if !slices.Contains(Types, t) {
		return nil, fmt.Errorf("%w repository type %q", ErrInvalid, t)
	}
	if err := CheckRepoID(id); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.index.find(t, id) >= 0 {
		return nil, fmt.Errorf("%s %s: %w", t, id, ErrExists)
	}
	uid := randomHex(8)
	info := Info{Type: t, ID: id, UID: uid, Private: opts.Private, CreatedAt: time.Now().UTC().Truncate(time.Millisecond), CAS: randomHex(8)}
	if err := s.initRepo(uid); err != nil {
		return nil, err
	}
	r, err := s.openRepo(uid)
	if err != nil {
		return nil, err
	}
	if !opts.Empty {
		if err := r.firstCommit(opts.Author); err != nil {
			return nil, err
		}
	}
	next := s.index.clone()
	next.Repos = append(next.Repos, info)
	next.Moved = slices.DeleteFunc(next.Moved, func(m moved) bool { return m.Type == t && m.From == id })
	if err := s.setIndex(next); err != nil {
		return nil, err
	}
	s.open[uid] = r
	return r, nil
}

// Repo finds a repository by its name or a former one.
func (s *Store) Repo(t Type, id string) (*Repo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index.find(t, id)
	if i < 0 {
		for _, m := range s.index.Moved {
			if m.Type == t && m.From == id {
				i = s.index.findUID(m.UID)
			}
		}
	}
	if i < 0 {
		return nil, fmt.Errorf("%s %s: %w", t, clip(id), ErrRepoNotFound)
	}
	return s.repoAt(i)
}

// RepoByUID finds a repository by the name of its directory.
func (s *Store) RepoByUID(uid string) (*Repo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index.findUID(uid)
	if i < 0 {
		return nil, fmt.Errorf("repository %q: %w", clip(uid), ErrRepoNotFound)
	}
	return s.repoAt(i)
}

func (s *Store) repoAt(i int) (*Repo, error) {
	uid := s.index.Repos[i].UID
	if r := s.open[uid]; r != nil {
		return r, nil
	}
	r, err := s.openRepo(uid)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", s.index.Repos[i].Type, s.index.Repos[i].ID, err)
	}
	s.open[uid] = r
	return r, nil
}

// List describes all repositories, in order of creation.
func (s *Store) List() []Info {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.index.Repos)
}

// Delete removes a repository and all it holds.
func (s *Store) Delete(t Type, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index.find(t, id)
	if i < 0 {
		return fmt.Errorf("%s %s: %w", t, clip(id), ErrRepoNotFound)
	}
	uid := s.index.Repos[i].UID
	next := s.index.clone()
	next.Repos = slices.Delete(next.Repos, i, i+1)
	next.Moved = slices.DeleteFunc(next.Moved, func(m moved) bool { return m.UID == uid })
	if err := s.setIndex(next); err != nil {
		return err
	}
	delete(s.open, uid)
	// The repository is gone already; what cannot be removed now, GC removes.
	os.RemoveAll(s.repoDir(uid))
	return nil
}

// Move renames a repository; the old name keeps finding it until another
// repository takes it.
func (s *Store) Move(t Type, from, to string) error {
	if err := CheckRepoID(to); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index.find(t, from)
	if i < 0 {
		return fmt.Errorf("%s %s: %w", t, clip(from), ErrRepoNotFound)
	}
	if s.index.find(t, to) >= 0 {
		return fmt.Errorf("%s %s: %w", t, to, ErrExists)
	}
	next := s.index.clone()
	next.Repos[i].ID = to
	next.Moved = slices.DeleteFunc(next.Moved, func(m moved) bool { return m.Type == t && (m.From == to || m.From == from) })
	next.Moved = append(next.Moved, moved{Type: t, From: from, UID: next.Repos[i].UID})
	return s.setIndex(next)
}

// SetPrivate changes who may read a repository.
func (s *Store) SetPrivate(r *Repo, private bool) error {
	return s.updateInfo(r.uid, func(i *Info) { i.Private = private })
}

func (s *Store) updateInfo(uid string, change func(*Info)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index.findUID(uid)
	if i < 0 {
		return fmt.Errorf("repository %q: %w", uid, ErrRepoNotFound)
	}
	next := s.index.clone()
	change(&next.Repos[i])
	return s.setIndex(next)
}

func (s *Store) info(uid string) Info {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if i := s.index.findUID(uid); i >= 0 {
		return s.index.Repos[i]
	}
	return Info{UID: uid}
}

func (s *Store) repoDir(uid string) string { return filepath.Join(s.dir, "repos", uid) }
