package server

import (
	"errors"
	"net/http"
	"strings"

	"github.com/thox-ai/thoxbuild/hub/store"
)

// target finds the reference that a commit to rev would move. Only branches and
// pull requests can be committed to.
func (c *repoCall) target(rev string, createPR bool) (ref string, head store.ID, err error) {
	ref = rev
	if !strings.HasPrefix(rev, "refs/") {
		ref = "refs/heads/" + rev
	}
	if createPR && !strings.HasPrefix(ref, "refs/heads/") || strings.HasPrefix(ref, "refs/tags/") {
		return "", head, store.ErrRevisionNotFound
	}
	head, err = c.repo.Resolve(ref)
	return ref, head, err
}

func (c *repoCall) createPR() bool {
	v := c.r.URL.Query().Get("create_pr")
	return v == "1" || v == "true"
}

// mayCommit lets readers open pull requests, and writers all else.
func (c *repoCall) mayCommit() error {
	if c.createPR() {
		return c.needUser()
	}
	return c.mayWrite(c.info.Namespace())
}

// preupload tells how each file is to be sent, and what is there now.
func (c *repoCall) preupload(rev string) error {
	if err := c.mayCommit(); err != nil {
		return err
	}
	var in struct {
		Files []struct {
			Path string `json:"path"`
			Size int64  `json:"size"`
		} `json:"files"`
		GitIgnore string `json:"gitIgnore"`
	}
	if err := c.body(&in); err != nil {
		return err
	}
	_, head, err := c.target(rev, c.createPR())
	if err != nil {
		return err
	}
	type file struct {
		Path         string `json:"path"`
		UploadMode   string `json:"uploadMode"`
		ShouldIgnore bool   `json:"shouldIgnore"`
		OID          string `json:"oid,omitempty"`
	}
	ignore := parseIgnore(in.GitIgnore)
	out := []file{}
	for _, f := range in.Files {
		if err := store.CheckPath(f.Path); err != nil {
			return err
		}
		w := file{Path: f.Path, UploadMode: "regular", ShouldIgnore: ignore.match(f.Path)}
		if f.Size >= c.opts.Threshold && !c.opts.NoXet {
			w.UploadMode = "lfs"
		}
		e, err := c.repo.Stat(head, f.Path)
		switch {
		case err == nil && !e.Dir:
			w.OID = e.ETag()
		case err != nil && !errors.Is(err, store.ErrEntryNotFound):
			return err
		}
		out = append(out, w)
	}
	return c.reply(http.StatusOK, map[string]any{"files": out, "commitOid": head.String()})
}
