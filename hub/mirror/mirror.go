// Package mirror copies a revision of a repository from another Hub into the
// embedded one, through the public HTTP API of the other.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/store"
)

// Options say what to copy.
type Options struct {
	From *client.Client
	Repo client.Repo
	// Revision is a branch, tag or commit of the other Hub.
	Revision string
	// Branch is where the copy goes here; Revision's name when it is a branch,
	// and otherwise required.
	Branch string
}

// Result is what Copy has done.
type Result struct {
	// Source is the commit on the other Hub, Commit the one here. They differ,
	// as the history is not copied, but their files are the same.
	Source, Commit string
	Branch         string
	Files          int
	// Fetched is how many bytes were downloaded: what the store has is not.
	Fetched int64
}

// Copy brings the files of one revision here as one commit. What is on the
// branch besides them is removed, so that its tree is that revision. It is safe
// to repeat: large files that have arrived stay.
func Copy(ctx context.Context, s *store.Store, o Options) (*Result, error) {
	sha, err := o.From.Revision(ctx, o.Repo, o.Revision)
	if err != nil {
		return nil, err
	}
	if o.Branch == "" {
		refs, err := o.From.Refs(ctx, o.Repo, false)
		if err != nil {
			return nil, err
		}
		if _, ok := refs.Branch(o.Revision); !ok {
			return nil, fmt.Errorf("mirror %s@%s: the revision is no branch; name the branch that the copy goes to", o.Repo, o.Revision)
		}
		o.Branch = o.Revision
	}
	if err := store.CheckName(o.Branch); err != nil {
		return nil, err
	}
	list, err := o.From.Tree(ctx, o.Repo, sha, "", true)
	if err != nil {
		return nil, err
	}
	repo, err := s.Create(store.Type(o.Repo.Type), o.Repo.ID(), store.CreateOptions{Author: "mirror"})
	if errors.Is(err, store.ErrExists) {
		repo, err = s.Repo(store.Type(o.Repo.Type), o.Repo.ID())
	}
	if err != nil {
		return nil, err
	}
	c := &copier{o: o, s: s, repo: repo, sha: sha, res: &Result{Source: sha, Branch: o.Branch}}
	if err := c.run(ctx, list); err != nil {
		return nil, fmt.Errorf("mirror %s@%s: %w", o.Repo, o.Revision, err)
	}
	return c.res, nil
}

type copier struct {
	o    Options
	s    *store.Store
	repo *store.Repo
	sha  string
	res  *Result
}

func (c *copier) run(ctx context.Context, list []client.Entry) error {
	st, err := c.repo.Stage()
	if err != nil {
		return err
	}
	defer st.Close()
	var ops []store.Op
	keep := map[string]store.ID{}
	for _, e := range list {
		if e.Dir {
			continue
		}
		id, err := c.file(ctx, st, e)
		if err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
		keep[e.Path] = id
		ops = append(ops, store.Op{Kind: store.PutFile, Path: e.Path, Blob: id})
		c.res.Files++
	}
	ref := "refs/heads/" + c.o.Branch
	head, err := c.repo.Resolve(ref)
	fresh := errors.Is(err, store.ErrRevisionNotFound)
	if err != nil && !fresh {
		return err
	}
	req := store.CommitRequest{
		Ref: ref, Create: true, Author: "mirror", Time: time.Now(),
		Summary:     fmt.Sprintf("mirror of %s@%s", c.o.Repo.ID(), c.o.Revision),
		Description: "source commit " + c.sha,
	}
	if !fresh {
		have, err := c.repo.List(head, "", true)
		if err != nil {
			return err
		}
		same := 0
		var gone []store.Op
		for _, e := range have {
			switch id, ok := keep[e.Path]; {
			case e.Dir:
			case !ok:
				gone = append(gone, store.Op{Kind: store.DeleteFile, Path: e.Path})
			case id == e.ID:
				same++
			}
		}
		if len(gone) == 0 && same == len(keep) {
			c.res.Commit = head.String()
			return nil
		}
		req.Parent, ops = head.String(), append(gone, ops...)
	}
	req.Ops = ops
	id, err := st.Commit(req)
	c.res.Commit = id.String()
	return err
}

// file fetches one file, checks it against what the tree says and stages it.
func (c *copier) file(ctx context.Context, st *store.Stage, e client.Entry) (store.ID, error) {
	if e.SHA256 != "" {
		if n, err := c.repo.LFSSize(e.SHA256); err == nil && n == e.Size {
			return st.AddPointer(store.Pointer{SHA256: e.SHA256, Size: n})
		}
	}
	r, err := c.o.From.Open(ctx, c.o.Repo, c.sha, e.Path, e.Size)
	if err != nil {
		return store.ID{}, err
	}
	defer r.Close()
	if e.SHA256 == "" && e.Size < 64<<20 {
		data, err := io.ReadAll(r)
		if err != nil {
			return store.ID{}, err
		}
		c.res.Fetched += int64(len(data))
		if got := store.HashObject(store.BlobObject, data); got.String() != e.OID {
			return store.ID{}, fmt.Errorf("the other Hub sent content %s, its tree says %s", got, e.OID)
		}
		return st.AddBlob(data)
	}
	t, err := c.s.NewTemp()
	if err != nil {
		return store.ID{}, err
	}
	defer t.Close()
	n, err := io.Copy(t, r)
	c.res.Fetched += n
	if err != nil {
		return store.ID{}, err
	}
	p, err := c.repo.PutLFS(t, e.SHA256)
	if err != nil {
		return store.ID{}, err
	}
	return st.AddPointer(p)
}
