// Package memhub is a Hub in memory for the tests of this room's clients. It
// knows its own state, so a test can ask what really happened, and it can be
// told to lie. It is written from the protocol alone and shares no code with
// the clients or with the embedded server.
package memhub

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
)

// File is a stored file.
type File struct {
	Data []byte
	LFS  bool
}

// Commit is a stored commit with its whole tree.
type Commit struct {
	ID, Parent, Title, Message string
	Files                      map[string]File
}

// Repo is a repository.
type Repo struct {
	Branches map[string]string
	PRs      []string // heads of refs/pr/1, 2, ...
	Commits  map[string]*Commit
	Objects  map[string][]byte // LFS by SHA-256
	Private  bool
}

// Hub is an http.Handler.
type Hub struct {
	mu    sync.Mutex
	Repos map[string]*Repo // "kernels/ns/name"

	// Token is what calls must carry, if set.
	Token string
	// LFSThreshold sends files of that size and more to LFS.
	LFSThreshold int64
	// ChunkSize makes LFS uploads multipart, if set.
	ChunkSize int64
	// PageSize pages tree listings, if set.
	PageSize int
	// Ignore is a path suffix that preupload says to ignore.
	Ignore string
	// Received counts the bytes of LFS bodies and commits.
	Received int64
	// Puts counts finished uploads by LFS object.
	Puts map[string]int
	// Tamper, if set, may answer a request instead.
	Tamper func(w http.ResponseWriter, r *http.Request) bool

	parts map[string]map[int][]byte
}

// New returns an empty Hub that keeps files of 1 kB and more in LFS.
func New() *Hub {
	return &Hub{Repos: map[string]*Repo{}, LFSThreshold: 1024, Puts: map[string]int{}, parts: map[string]map[int][]byte{}}
}

// With runs f under the lock, to look at the state.
func (h *Hub) With(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// Head returns a branch's head commit, or nil.
func (h *Hub) Head(repo, branch string) *Commit {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.Repos[repo]
	if r == nil {
		return nil
	}
	return r.Commits[r.Branches[branch]]
}

// History lists a branch's commits, newest first.
func (h *Hub) History(repo, branch string) (out []*Commit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.Repos[repo]
	if r == nil {
		return nil
	}
	for c := r.Commits[r.Branches[branch]]; c != nil; c = r.Commits[c.Parent] {
		out = append(out, c)
	}
	return out
}

// Put commits files directly, as another publisher would.
func (h *Hub) Put(repo, branch string, change func(files map[string]File)) *Commit {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.Repos[repo]
	if r == nil {
		r = newRepo()
		h.Repos[repo] = r
	}
	head := r.Branches[branch]
	if head == "" {
		head = r.Branches["main"]
	}
	c := r.Commits[head].child("direct", "")
	change(c.Files)
	r.add(c)
	r.Branches[branch] = c.ID
	return c
}

func newRepo() *Repo {
	r := &Repo{Branches: map[string]string{}, Commits: map[string]*Commit{}, Objects: map[string][]byte{}}
	c := &Commit{Title: "initial commit", Files: map[string]File{".gitattributes": {Data: []byte("*.so filter=lfs\n")}}}
	r.add(c)
	r.Branches["main"] = c.ID
	return r
}

func (c *Commit) child(title, message string) *Commit {
	return &Commit{Parent: c.ID, Title: title, Message: message, Files: maps.Clone(c.Files)}
}

func (r *Repo) add(c *Commit) {
	h := sha1.New()
	fmt.Fprintf(h, "%s\n%s\n%s\n%d\n", c.Parent, c.Title, c.Message, len(r.Commits))
	for _, p := range slices.Sorted(maps.Keys(c.Files)) {
		fmt.Fprintf(h, "%s %s\n", p, blobID(c.Files[p].Data))
	}
	c.ID = hex.EncodeToString(h.Sum(nil))
	r.Commits[c.ID] = c
}

func blobID(b []byte) string {
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(b))
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
