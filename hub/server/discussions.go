package server

import (
	"net/http"
	"strconv"

	"github.com/thox-ai/thoxbuild/hub/store"
)

// discussions routes [], [N], [N merge] and [N status].
func (c *repoCall) discussions(segs []string) error {
	m := c.r.Method
	if len(segs) == 0 {
		switch m {
		case http.MethodGet:
			return c.listDiscussions()
		case http.MethodPost:
			return c.openDiscussion()
		}
		return errNoRoute
	}
	n, err := strconv.Atoi(segs[0])
	if err != nil || n < 1 {
		return errNoRoute
	}
	d, err := c.repo.Discussion(n)
	if err != nil {
		return err
	}
	switch {
	case len(segs) == 1 && m == http.MethodGet:
		return c.showDiscussion(d)
	case len(segs) == 2 && m == http.MethodPost && segs[1] == "merge":
		if err := c.mayWrite(c.info.Namespace()); err != nil {
			return err
		}
		if d, err = c.repo.Merge(n, c.who.User); err != nil {
			return err
		}
		return c.reply(http.StatusOK, map[string]any{"success": true, "mergeCommitId": d.MergeCommit})
	case len(segs) == 2 && m == http.MethodPost && segs[1] == "status":
		if err := c.mayWrite(c.info.Namespace()); err != nil {
			return err
		}
		var in struct {
			Status string `json:"status"`
		}
		if err := c.body(&in); err != nil {
			return err
		}
		if d, err = c.repo.SetStatus(n, in.Status); err != nil {
			return err
		}
		return c.reply(http.StatusOK, map[string]any{"newStatus": d.Status})
	}
	return errNoRoute
}

func (c *repoCall) wireDiscussion(d store.Discussion) map[string]any {
	return map[string]any{
		"num": d.Num, "title": d.Title, "status": d.Status, "isPullRequest": d.PullRequest, "createdAt": date(d.CreatedAt),
		"repo":   map[string]any{"name": c.info.ID, "type": c.info.Type},
		"author": map[string]any{"name": d.Author, "type": "user"},
	}
}

func (c *repoCall) listDiscussions() error {
	all, err := c.repo.Discussions()
	if err != nil {
		return err
	}
	const size = 50
	page, _ := strconv.Atoi(c.r.URL.Query().Get("p"))
	page = max(page, 0)
	start := len(all)
	if page < len(all)/size+1 {
		start = page * size
	}
	list := []map[string]any{}
	for _, d := range all[start:min(start+size, len(all))] {
		list = append(list, c.wireDiscussion(d))
	}
	return c.reply(http.StatusOK, map[string]any{"discussions": list, "count": len(all), "start": start})
}

func (c *repoCall) openDiscussion() error {
	if err := c.needUser(); err != nil {
		return err
	}
	var in struct {
		Title       string `json:"title"`
		Description string `json:"description"`
		PullRequest bool   `json:"pullRequest"`
	}
	if err := c.body(&in); err != nil {
		return err
	}
	if in.Title == "" {
		return badRequest("a discussion needs a title")
	}
	d, err := c.repo.Open(store.Discussion{Title: in.Title, Description: in.Description, Author: c.who.User, PullRequest: in.PullRequest, Base: "refs/heads/main"})
	if err != nil {
		return err
	}
	out := c.wireDiscussion(d)
	out["url"] = c.base() + "/" + prefix(c.info.Type) + c.info.ID + "/discussions/" + strconv.Itoa(d.Num)
	return c.reply(http.StatusOK, out)
}

func (c *repoCall) showDiscussion(d store.Discussion) error {
	out := c.wireDiscussion(d)
	out["events"] = []any{map[string]any{
		"id": "1", "type": "comment", "createdAt": date(d.CreatedAt), "author": map[string]any{"name": d.Author, "type": "user"},
		"data": map[string]any{"edited": false, "hidden": false, "latest": map[string]any{"raw": d.Description, "html": "", "updatedAt": date(d.CreatedAt), "author": map[string]any{"name": d.Author}}},
	}}
	out["filesWithConflicts"] = []string{}
	if d.PullRequest {
		changes := map[string]any{"base": d.Base}
		if d.MergeCommit != "" {
			changes["mergeCommitId"] = d.MergeCommit
		} else if files, _, err := c.repo.Conflicts(d); err != nil {
			return err
		} else if len(files) > 0 {
			out["filesWithConflicts"] = files
		}
		out["changes"], out["diff"] = changes, ""
	}
	return c.reply(http.StatusOK, out)
}
