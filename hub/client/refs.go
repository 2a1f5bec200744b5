package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Ref is a branch, a tag or a pull request with the commit it points to.
type Ref struct {
	Name   string `json:"name"`
	Ref    string `json:"ref"`
	Commit string `json:"targetCommit"`
}

// Refs are a repository's references.
type Refs struct {
	Branches     []Ref `json:"branches"`
	Tags         []Ref `json:"tags"`
	PullRequests []Ref `json:"pullRequests"`
}

// Branch returns the commit of a branch.
func (r *Refs) Branch(name string) (string, bool) {
	for _, b := range r.Branches {
		if b.Name == name {
			return b.Commit, true
		}
	}
	return "", false
}

// Refs lists branches and tags, and pull requests if asked for. A missing
// repository is ErrRepoNotFound; a private one looks the same to strangers.
func (c *Client) Refs(ctx context.Context, r Repo, pullRequests bool) (*Refs, error) {
	path := r.api() + "/refs"
	if pullRequests {
		path += "?include_prs=1"
	}
	var out Refs
	err := c.do(ctx, call{op: "list the branches of " + r.String(), method: http.MethodGet, url: c.url(path), auth: true, retry: true, result: &out})
	if err != nil {
		return nil, notFoundAs(err, "RepoNotFound")
	}
	for _, list := range [][]Ref{out.Branches, out.Tags, out.PullRequests} {
		for _, ref := range list {
			if !IsCommit(ref.Commit) {
				return nil, fmt.Errorf("list the branches of %s: %s points to %q, which is not a commit id", r, ref.Name, clip(ref.Commit, 60))
			}
		}
	}
	return &out, nil
}

// notFoundAs gives a plain 404 the code that its call implies; proxies and
// older servers leave the header out.
func notFoundAs(err error, code string) error {
	var e *Error
	if errors.As(err, &e) && e.Status == http.StatusNotFound && e.Code == "" {
		e.Code = code
	}
	return err
}

// Revision resolves a branch, tag, short or full commit id to the full one.
func (c *Client) Revision(ctx context.Context, r Repo, rev string) (string, error) {
	var out struct {
		SHA string `json:"sha"`
	}
	err := c.do(ctx, call{op: fmt.Sprintf("resolve %s of %s", rev, r), method: http.MethodGet, url: c.url(r.api() + "/revision/" + seg(rev)), auth: true, retry: true, result: &out})
	if err != nil {
		return "", notFoundAs(err, "RevisionNotFound")
	}
	if !IsCommit(out.SHA) {
		return "", fmt.Errorf("resolve %s of %s: the server answered %q, which is not a commit id", rev, r, clip(out.SHA, 60))
	}
	return out.SHA, nil
}

// CreateRepo makes a repository with a main branch. It is not an error if the
// repository is there already; created says which it was.
func (c *Client) CreateRepo(ctx context.Context, r Repo, private bool) (created bool, err error) {
	visibility := "public"
	if private {
		visibility = "private"
	}
	b, err := json.Marshal(map[string]any{
		"name": r.Name, "organization": r.Namespace, "type": r.Type, "visibility": visibility, "private": private,
	})
	if err != nil {
		return false, err
	}
	err = c.do(ctx, call{
		op: "create repository " + r.String(), method: http.MethodPost, url: c.url("/api/repos/create"),
		contentType: "application/json", body: bytesBody(b), auth: true, retry: true,
		read: func(*http.Response) error { return nil },
	})
	switch {
	case errors.Is(err, ErrExists):
		return false, nil
	case errors.Is(err, ErrForbidden) && r.Type == Kernel:
		return false, fmt.Errorf("%w\nhint: the token may not create kernels under %q; the namespace must be approved for kernel repositories and the token needs the write role", err, r.Namespace)
	case errors.Is(err, ErrUnauthorized):
		return false, fmt.Errorf("%w\nhint: set HF_TOKEN to a token with the write role", err)
	}
	return err == nil, err
}

// CreateBranch makes a branch that starts at a revision, main's head if from
// is empty. It is not an error if the branch is there already.
func (c *Client) CreateBranch(ctx context.Context, r Repo, branch, from string) error {
	b := []byte("{}")
	if from != "" {
		b, _ = json.Marshal(map[string]string{"startingPoint": from})
	}
	err := c.do(ctx, call{
		op: fmt.Sprintf("create branch %s of %s", branch, r), method: http.MethodPost, url: c.url(r.api() + "/branch/" + seg(branch)),
		contentType: "application/json", body: bytesBody(b), auth: true, retry: true,
		read: func(*http.Response) error { return nil },
	})
	if errors.Is(err, ErrExists) {
		return nil
	}
	return err
}

// Commit is an entry of a branch's history.
type Commit struct {
	ID    string `json:"id"`
	Title string `json:"title"`
}

// maxCommits bounds how far back Commits looks.
const maxCommits = 10_000

// Commits returns the commits of a revision, newest first, at most the newest
// 10,000.
func (c *Client) Commits(ctx context.Context, r Repo, rev string) ([]Commit, error) {
	op := fmt.Sprintf("list the commits of %s at %s", r, rev)
	dir := c.url(r.api() + "/commits/")
	// A server may pin the pages that follow to the commit that it began with.
	same := func(path string) bool {
		rest, ok := strings.CutPrefix(path, dir.EscapedPath())
		return ok && !strings.Contains(rest, "/")
	}
	var out []Commit
	for next := c.url(r.api() + "/commits/" + seg(rev)); next != nil; {
		var page []Commit
		var link string
		err := c.do(ctx, call{op: op, method: http.MethodGet, url: next, auth: true, retry: true, read: func(resp *http.Response) error {
			link = resp.Header.Get("Link")
			page = nil
			return (call{result: &page}).consume(resp)
		}})
		if err != nil {
			return nil, err
		}
		if out = append(out, page...); len(page) == 0 || len(out) >= maxCommits {
			break
		}
		if next, err = c.nextPage(next, link, same); err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
	}
	return out, nil
}

// ValidateCard asks the Hub whether it accepts a README's front matter. An
// error lists what it refuses; servers without the call accept everything.
func (c *Client) ValidateCard(ctx context.Context, r Repo, content []byte) error {
	b, err := json.Marshal(map[string]any{"content": string(content), "repoType": r.Type})
	if err != nil {
		return err
	}
	var out struct {
		Errors []struct {
			Message string `json:"message"`
		} `json:"errors"`
	}
	err = c.do(ctx, call{op: "validate the card", method: http.MethodPost, url: c.url("/api/validate-yaml"), contentType: "application/json", body: bytesBody(b), auth: true, retry: true, result: &out})
	var e *Error
	if errors.As(err, &e) && e.Status == http.StatusNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	if len(out.Errors) > 0 {
		return fmt.Errorf("the Hub refuses the card's front matter: %s", clip(out.Errors[0].Message, 300))
	}
	return nil
}
