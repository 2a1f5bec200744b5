package server

import (
	"errors"
	"mime"
	"net/http"
	"net/url"

	"github.com/thox-ai/thoxbuild/hub/store"
)

// wireEntry is one file or folder as tree and paths-info answer it.
type wireEntry struct {
	Type       string      `json:"type"`
	OID        string      `json:"oid"`
	Size       int64       `json:"size"`
	Path       string      `json:"path"`
	LFS        *wireLFS    `json:"lfs,omitempty"`
	LastCommit *wireCommit `json:"lastCommit,omitempty"`
}

type wireLFS struct {
	OID         string `json:"oid"`
	Size        int64  `json:"size"`
	PointerSize int64  `json:"pointerSize"`
}

type wireCommit struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Date  string `json:"date"`
}

func (c *repoCall) tree(rev, path string) error {
	id, err := c.repo.Resolve(rev)
	if err != nil {
		return err
	}
	q := c.r.URL.Query()
	list, err := c.repo.List(id, path, q.Get("recursive") == "true" || q.Get("recursive") == "1")
	if err != nil {
		return err
	}
	expand := q.Get("expand") == "true" || q.Get("expand") == "1"
	size := c.opts.PageSize
	if expand {
		size = min(size, 50)
	}
	limit, skip := c.pageOf(size)
	list = list[min(skip, len(list)):]
	if len(list) > limit {
		list = list[:limit]
		next := "tree/" + id.String()
		if path != "" {
			next += "/" + url.PathEscape(path)
		}
		c.next(next, skip+limit)
	}
	out, err := c.wire(id, list, expand)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, out)
}

func (c *repoCall) wire(at store.ID, list []store.Entry, expand bool) ([]wireEntry, error) {
	var last map[string]*store.Commit
	if expand {
		var err error
		if last, err = c.repo.LastChanges(at, list); err != nil {
			return nil, err
		}
	}
	out := []wireEntry{}
	for _, e := range list {
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
		if err := c.repo.Detail(&e); err != nil {
			return nil, err
		}
		w := wireEntry{Type: "file", OID: e.ID.String(), Size: e.Size, Path: e.Path}
		if e.Dir {
			w.Type = "directory"
		}
		if e.LFS != nil {
			w.LFS = &wireLFS{OID: e.LFS.SHA256, Size: e.Size, PointerSize: e.PointerSize}
		}
		if m := last[e.Path]; m != nil {
			w.LastCommit = &wireCommit{ID: m.ID.String(), Title: m.Summary, Date: date(m.Time)}
		}
		out = append(out, w)
	}
	return out, nil
}

// maxPaths bounds one paths-info request.
const maxPaths = 1000

// pathsInfo takes a form from Python and JSON from Rust. Paths that do not
// exist are left out of the answer.
func (c *repoCall) pathsInfo(rev string) error {
	id, err := c.repo.Resolve(rev)
	if err != nil {
		return err
	}
	var in struct {
		Paths  []string `json:"paths"`
		Expand bool     `json:"expand"`
	}
	if ct, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type")); ct == "application/json" {
		if err := c.body(&in); err != nil {
			return err
		}
	} else {
		c.r.Body = http.MaxBytesReader(c.w, c.r.Body, maxJSON)
		if err := c.r.ParseForm(); err != nil {
			return badRequest("body: want a form or a JSON object: %v", err)
		}
		in.Paths, in.Expand = c.r.PostForm["paths"], c.r.PostForm.Get("expand") == "true"
	}
	if len(in.Paths) > maxPaths {
		return badRequest("%d paths: want at most %d", len(in.Paths), maxPaths)
	}
	var list []store.Entry
	for _, p := range in.Paths {
		e, err := c.repo.Stat(id, p)
		if errors.Is(err, store.ErrEntryNotFound) || p == "" {
			continue
		}
		if err != nil {
			return err
		}
		list = append(list, e)
	}
	out, err := c.wire(id, list, in.Expand)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, out)
}
