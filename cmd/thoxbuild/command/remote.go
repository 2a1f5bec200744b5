package command

import (
	"context"
	"os"
	"strings"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/hub/oci"
	"github.com/thox-ai/thoxbuild/hub/source"
)

// hubClient makes a client for --endpoint, or HF_ENDPOINT, with the token that
// huggingface_hub would use.
func (g *globals) hubClient(ctx context.Context, endpoint string) (*client.Client, error) {
	if endpoint == "" {
		endpoint = client.DefaultEndpoint(os.Getenv)
	}
	found, err := client.DiscoverToken(ctx, endpoint, os.Getenv)
	if err != nil {
		return nil, err
	}
	if found.Warning != "" {
		g.streams.notef("%s", found.Warning)
	}
	return client.New(client.Config{Endpoint: endpoint, Token: found.Token, UserAgent: "thoxbuild/" + version(), Log: g.streams.notef})
}

// locked finds what a lock file pins for a repository, or its only entry.
func locked(f *lock.File, repo, branch, path string) (*lock.Kernel, error) {
	if repo == "" {
		if len(f.Kernels) != 1 {
			return nil, withHint(usagef("%s pins %d kernels", path, len(f.Kernels)), "name one: NAMESPACE/NAME")
		}
		return &f.Kernels[0], nil
	}
	k, err := f.Find(repo, branch)
	if err != nil {
		return nil, withHint(usageError{err}, "'thoxbuild publish' or 'thoxbuild lock' writes entries to %s", path)
	}
	return k, nil
}

// lockName is the name under which a lock pins a repository.
func lockName(id string) string {
	if t, err := oci.ParseTarget(id); err == nil {
		return t.LockName()
	}
	return id
}

// lockEntry finds what to hold a repository against: the entry for this very
// revision, branch or tag, else the only one for the repository, so that a
// revision other than the locked one is noticed. A revision of a repository
// that the lock does not name is held against its own digests only.
func lockEntry(f *lock.File, id, revision, path string) (*lock.Kernel, error) {
	name := lockName(id)
	if t, err := oci.ParseTarget(id); err == nil {
		revision = firstOf(revision, t.Digest, t.Tag)
	}
	if revision == "" {
		return locked(f, name, "", path)
	}
	same := filter(f.Kernels, func(k lock.Kernel) bool { return k.Repo == name })
	for i, k := range same {
		if k.Revision == revision || k.Branch == revision {
			return &same[i], nil
		}
	}
	if len(same) == 1 {
		return &same[0], nil
	}
	if len(same) > 1 {
		return nil, usagef("%s pins several branches of %s, but not %s", path, name, revision)
	}
	return nil, nil
}

// hubSource is a repository at a revision; a branch or tag is resolved to its
// commit first.
func hubSource(ctx context.Context, c *client.Client, t client.RepoType, id, revision string) (*source.Hub, error) {
	repo, err := client.ParseRepo(t, id)
	if err != nil {
		return nil, usageError{err}
	}
	if !client.IsCommit(revision) {
		if revision, err = c.Revision(ctx, repo, revision); err != nil {
			return nil, err
		}
	}
	return &source.Hub{Client: c, Repo: repo, Commit: revision}, nil
}

// splitRevision reads REPO[@REVISION].
func splitRevision(s string) (repo, revision string) {
	repo, revision, _ = strings.Cut(s, "@")
	return repo, revision
}
