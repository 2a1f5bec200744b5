// Package source reads published kernels from wherever they are: a revision
// on a Hub, a folder, or an installed cache. Pulling and verifying work on any
// of them alike.
package source

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/thox-ai/thoxbuild/hub/client"
)

// Source is a tree of files laid out as in a kernel repository, with variants
// under build/.
type Source interface {
	// String names the source for messages.
	String() string
	// Revision is the commit or image digest, or empty for a plain folder.
	Revision() string
	// Files lists every file by its repository path. OID and SHA256 are set
	// where the source knows them; they are claims until the bytes are hashed.
	Files(ctx context.Context) ([]client.Entry, error)
	// Open streams a file that Files listed.
	Open(ctx context.Context, e client.Entry) (io.ReadCloser, error)
}

// Mover is a source whose revision was reached through a name that may move.
type Mover interface {
	// Head returns where a branch or tag points now: the revision, empty if
	// the name is gone, and a source for it, nil if that is this revision.
	Head(ctx context.Context, name string) (Source, string, error)
}

// Hub is a revision of a repository.
type Hub struct {
	Client *client.Client
	Repo   client.Repo
	// Commit is a full commit id.
	Commit string
}

var _ Source = (*Hub)(nil)

var _ Mover = (*Hub)(nil)

// Head implements Mover.
func (h *Hub) Head(ctx context.Context, branch string) (Source, string, error) {
	refs, err := h.Client.Refs(ctx, h.Repo, false)
	if err != nil {
		return nil, "", err
	}
	head, ok := refs.Branch(branch)
	if !ok || head == h.Commit {
		return nil, head, nil
	}
	return &Hub{Client: h.Client, Repo: h.Repo, Commit: head}, head, nil
}

// String implements Source.
func (h *Hub) String() string { return fmt.Sprintf("%s@%s", h.Repo, h.Commit) }

// Revision implements Source.
func (h *Hub) Revision() string { return h.Commit }

// Files implements Source.
func (h *Hub) Files(ctx context.Context) ([]client.Entry, error) {
	all, err := h.Client.Tree(ctx, h.Repo, h.Commit, "", true)
	return slices.DeleteFunc(all, func(e client.Entry) bool { return e.Dir }), err
}

// Open implements Source.
func (h *Hub) Open(ctx context.Context, e client.Entry) (io.ReadCloser, error) {
	return h.Client.Open(ctx, h.Repo, h.Commit, e.Path, e.Size)
}
