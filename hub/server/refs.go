package server

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/thox-ai/thoxbuild/hub/store"
)

func (c *repoCall) refs() error {
	out := map[string]any{"converts": []any{}}
	groups := map[string]string{"branches": "refs/heads/", "tags": "refs/tags/"}
	if v := c.r.URL.Query().Get("include_prs"); v == "1" || v == "true" {
		groups["pullRequests"] = "refs/pr/"
	}
	for key, ns := range groups {
		refs, err := c.repo.Refs(ns)
		if err != nil {
			return err
		}
		list := []map[string]any{}
		for _, r := range refs {
			list = append(list, map[string]any{"name": r.Short(), "ref": r.Name, "targetCommit": r.Target.String()})
		}
		out[key] = list
	}
	return c.reply(http.StatusOK, out)
}

func (c *repoCall) createBranch(name string) error {
	if err := c.mayWrite(c.info.Namespace()); err != nil {
		return err
	}
	var in struct {
		StartingPoint string `json:"startingPoint"`
		EmptyBranch   bool   `json:"emptyBranch"`
		Overwrite     bool   `json:"overwrite"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(c.w, c.r.Body, maxJSON)).Decode(&in); err != nil && !errors.Is(err, io.EOF) {
		return badRequest("body: want a JSON object: %v", err)
	}
	if store.CheckName(name) != nil {
		return badRequest("Invalid reference for a branch: refs/heads/%s", name)
	}
	if in.EmptyBranch || in.Overwrite {
		return badRequest("emptyBranch and overwrite are not supported by this Hub; delete the branch or its files instead")
	}
	if in.StartingPoint == "" {
		in.StartingPoint = "main"
	}
	at, err := c.repo.Resolve(in.StartingPoint)
	if err != nil {
		return err
	}
	return c.createRef("refs/heads/"+name, at)
}

func (c *repoCall) createRef(ref string, at store.ID) error {
	err := c.repo.CreateRef(ref, at)
	if errors.Is(err, store.ErrExists) {
		return &apiError{Status: http.StatusConflict, Message: "Reference " + ref + " already exists"}
	}
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, map[string]any{"ref": ref, "targetCommit": at.String()})
}

func (c *repoCall) createTag(rev string) error {
	if err := c.mayWrite(c.info.Namespace()); err != nil {
		return err
	}
	var in struct {
		Tag string `json:"tag"`
	}
	if err := c.body(&in); err != nil {
		return err
	}
	if store.CheckName(in.Tag) != nil {
		return badRequest("Invalid reference for a tag: refs/tags/%s", in.Tag)
	}
	at, err := c.repo.Resolve(rev)
	if err != nil {
		return err
	}
	return c.createRef("refs/tags/"+in.Tag, at)
}

func (c *repoCall) deleteRef(ns, name string) error {
	if err := c.mayWrite(c.info.Namespace()); err != nil {
		return err
	}
	if store.CheckName(name) != nil {
		return badRequest("Invalid reference: %s%s", ns, name)
	}
	if err := c.repo.DeleteRef(ns + name); err != nil {
		if errors.Is(err, store.ErrForbidden) {
			return &apiError{Status: http.StatusForbidden, Message: "Cannot delete " + ns + name}
		}
		return err
	}
	return c.reply(http.StatusOK, map[string]any{})
}

// commits pages by a count of commits from a pinned id, so that commits which
// arrive meanwhile shift nothing.
func (c *repoCall) commits(rev string) error {
	id, err := c.repo.Resolve(rev)
	if err != nil {
		return err
	}
	q := c.r.URL.Query()
	limit, skip := c.pageOf(50)
	list, more, err := c.repo.Log(id, skip, limit)
	if err != nil {
		return err
	}
	formatted := false
	for _, key := range []string{"expand", "expand[]"} {
		for _, v := range q[key] {
			formatted = formatted || v == "formatted"
		}
	}
	out := []map[string]any{}
	for _, m := range list {
		item := map[string]any{
			"id": m.ID.String(), "title": m.Summary, "message": m.Description, "date": date(m.Time),
			"authors": []map[string]any{{"user": m.Author, "avatar": ""}},
		}
		if formatted {
			item["formatted"] = map[string]any{"title": m.Summary, "message": m.Description}
		}
		out = append(out, item)
	}
	if more {
		c.next("commits/"+id.String(), skip+len(list))
	}
	return c.reply(http.StatusOK, out)
}

// pageOf reads limit and cursor.
func (c *repoCall) pageOf(def int) (limit, skip int) {
	q := c.r.URL.Query()
	limit = min(def, c.opts.PageSize)
	if n, err := strconv.Atoi(q.Get("limit")); err == nil && n > 0 && n < limit {
		limit = n
	}
	if n, err := strconv.Atoi(q.Get("cursor")); err == nil && n > 0 {
		skip = n
	}
	return limit, skip
}

// next announces the following page of a listing at a pinned commit.
func (c *repoCall) next(path string, cursor int) {
	q := c.r.URL.Query()
	q.Set("cursor", strconv.Itoa(cursor))
	url := strings.Join([]string{c.base(), "api", plural(c.info.Type), c.info.ID, path}, "/") + "?" + q.Encode()
	c.w.Header().Set("Link", "<"+url+`>; rel="next"`)
}
