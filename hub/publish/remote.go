package publish

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/hub/client"
)

// read reads the branch as it is now: its head first, then the files at
// exactly that commit.
func (s *session) read(ctx context.Context) (*remote, error) {
	refs, err := s.c.Refs(ctx, s.repo, false)
	if errors.Is(err, client.ErrRepoNotFound) {
		return &remote{missing: true, noRepo: true, fresh: s.branch != "main", files: map[string]client.Entry{}}, nil
	}
	if err != nil {
		return nil, err
	}
	mainHead, _ := refs.Branch("main")
	r := &remote{}
	r.head, r.missing = "", false
	if head, ok := refs.Branch(s.branch); ok {
		r.head = head
	} else {
		r.head, r.missing = mainHead, true
	}
	if r.files, err = s.tree(ctx, r.head); err != nil {
		return nil, err
	}
	if s.branch == "main" {
		return r, nil
	}
	r.fresh = r.missing || (s.madeBranch && r.head == mainHead)
	if !r.fresh {
		r.foreign, err = s.inherited(ctx, r, mainHead)
	}
	return r, err
}

// tree maps the paths at a commit. Without a commit it is empty.
func (s *session) tree(ctx context.Context, commit string) (map[string]client.Entry, error) {
	files := map[string]client.Entry{}
	if commit == "" {
		return files, nil
	}
	entries, err := s.c.Tree(ctx, s.repo, commit, "", true)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.Dir {
			files[e.Path] = e
		}
	}
	return files, nil
}

// inherited finds variants that came from main and belong to another version.
// They are there when a publisher died between making the branch and its first
// commit: the branch then still points into main's history. Variants of our
// own version are left alone, since they may have been put there on purpose.
func (s *session) inherited(ctx context.Context, r *remote, mainHead string) (map[string]bool, error) {
	metas := map[string]client.Entry{}
	for path, e := range r.files {
		parts := strings.Split(path, "/")
		if len(parts) == 3 && parts[0] == "build" && parts[2] == "metadata.json" && !s.owns(parts[1]) {
			metas[parts[1]] = e
		}
	}
	if len(metas) == 0 {
		return nil, nil
	}
	if r.head != mainHead {
		history, err := s.c.Commits(ctx, s.repo, "main")
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(history, func(c client.Commit) bool { return c.ID == r.head }) {
			return nil, nil
		}
	}
	foreign := map[string]bool{}
	for name, e := range metas {
		body, err := s.c.Open(ctx, s.repo, r.head, e.Path, e.Size)
		if err != nil {
			return nil, err
		}
		var m struct {
			Version *int `json:"version"`
		}
		err = json.NewDecoder(io.LimitReader(body, 32<<20)).Decode(&m)
		_ = body.Close()
		if err == nil && m.Version != nil && *m.Version != s.bundle.Variants[0].Metadata.Version {
			foreign[name] = true
		}
	}
	return foreign, nil
}

func (s *session) owns(variant string) bool {
	for _, v := range s.bundle.Variants {
		if v.Name == variant {
			return true
		}
	}
	return false
}
