package server

import (
	"net/http"
	"strings"

	"github.com/thox-ai/thoxbuild/hub/store"
)

// repoCall is a call about one repository.
type repoCall struct {
	*call
	repo *store.Repo
	info store.Info
	// rest are the segments after the repository's name.
	rest []string
}

// plural is the type's segment in API paths.
func plural(t store.Type) string { return string(t) + "s" }

// prefix is what stands before the repository's name in page and file URLs.
func prefix(t store.Type) string {
	if t == store.Model {
		return ""
	}
	return plural(t) + "/"
}

func typeOf(segment string) (store.Type, bool) {
	for _, t := range store.Types {
		if plural(t) == segment {
			return t, true
		}
	}
	return "", false
}

func (c *call) route() error {
	segs := c.segs
	if segs[0] == "api" {
		// Capability URLs carry their own right and no token.
		if len(segs) > 2 && segs[1] == "lfs" {
			return c.lfsData(segs[2:])
		}
		if len(segs) > 3 && segs[1] == "xet" {
			return c.cas(segs[2], segs[3:])
		}
		if len(segs) == 2 && segs[1] == "agent-harnesses" {
			return c.reply(http.StatusOK, map[string]any{"standardEnvVars": []string{}, "harnesses": map[string]any{}})
		}
		if err := c.identify(); err != nil {
			return err
		}
		return c.api(segs[1:])
	}
	if err := c.identify(); err != nil {
		return err
	}
	t := store.Model
	if tt, ok := typeOf(segs[0]); ok && tt != store.Model {
		t, segs = tt, segs[1:]
	}
	if len(segs) < 3 {
		return errNoRoute
	}
	if name, ok := strings.CutSuffix(segs[1], ".git"); ok {
		rc, err := c.at(t, segs[0]+"/"+name, segs[2:])
		if err != nil {
			return err
		}
		return rc.git()
	}
	rc, err := c.at(t, segs[0]+"/"+segs[1], segs[2:])
	if err != nil {
		return err
	}
	if rc.rest[0] == "resolve" && len(rc.rest) > 2 {
		return rc.resolve(rc.rest[1], strings.Join(rc.rest[2:], "/"))
	}
	return errNoRoute
}

func (c *call) at(t store.Type, id string, rest []string) (*repoCall, error) {
	r, err := c.findRepo(t, id)
	if err != nil {
		return nil, err
	}
	return &repoCall{call: c, repo: r, info: r.Info(), rest: rest}, nil
}

func (c *call) api(segs []string) error {
	m := c.r.Method
	switch key := segs[0]; {
	case len(segs) == 1 && key == "whoami-v2" && m == http.MethodGet:
		return c.whoami()
	case len(segs) == 1 && key == "validate-yaml" && m == http.MethodPost:
		return c.validateYAML()
	case len(segs) == 3 && key == "organizations" && segs[2] == "overview" && m == http.MethodGet:
		return c.orgOverview(segs[1])
	case len(segs) == 3 && key == "users" && segs[2] == "overview" && m == http.MethodGet:
		return c.userOverview(segs[1])
	case len(segs) == 2 && key == "repos" && m == http.MethodPost && segs[1] == "create":
		return c.createRepo()
	case len(segs) == 2 && key == "repos" && m == http.MethodDelete && segs[1] == "delete":
		return c.deleteRepo()
	case len(segs) == 2 && key == "repos" && m == http.MethodPost && segs[1] == "move":
		return c.moveRepo()
	}
	t, ok := typeOf(segs[0])
	if !ok {
		return errNoRoute
	}
	if len(segs) == 1 && m == http.MethodGet {
		return c.listRepos(t)
	}
	if len(segs) < 3 {
		return errNoRoute
	}
	rc, err := c.at(t, segs[1]+"/"+segs[2], segs[3:])
	if err != nil {
		return err
	}
	return rc.api()
}

// api routes what follows the repository's name in an API path.
func (c *repoCall) api() error {
	m, n := c.r.Method, len(c.rest)
	if n == 0 {
		if m == http.MethodGet {
			return c.repoInfo("main")
		}
		return errNoRoute
	}
	get, post, del := m == http.MethodGet, m == http.MethodPost, m == http.MethodDelete
	arg := ""
	if n > 1 {
		arg = c.rest[1]
	}
	// A revision is one segment, but a client may forget to escape a branch.
	joined := strings.Join(c.rest[1:], "/")
	switch c.rest[0] {
	case "revision":
		if n == 2 && get {
			return c.repoInfo(arg)
		}
	case "refs":
		if n == 1 && get {
			return c.refs()
		}
	case "tree":
		if n >= 2 && get {
			return c.tree(arg, strings.Trim(strings.Join(c.rest[2:], "/"), "/"))
		}
	case "paths-info":
		if n == 2 && post {
			return c.pathsInfo(arg)
		}
	case "commits":
		if n == 2 && get {
			return c.commits(arg)
		}
	case "branch":
		if n >= 2 && post {
			return c.createBranch(joined)
		}
		if n >= 2 && del {
			return c.deleteRef("refs/heads/", joined)
		}
	case "tag":
		if n == 2 && post {
			return c.createTag(arg)
		}
		if n >= 2 && del {
			return c.deleteRef("refs/tags/", joined)
		}
	case "preupload":
		if n == 2 && post {
			return c.preupload(arg)
		}
	case "commit":
		if n == 2 && post {
			return c.commit(arg)
		}
	case "settings":
		if n == 1 && m == http.MethodPut {
			return c.settings()
		}
	case "auth-check":
		if get && n == 2 && arg == "write" {
			if err := c.mayWrite(c.info.Namespace()); err != nil {
				return err
			}
		}
		if get {
			return c.reply(http.StatusOK, map[string]any{})
		}
	case "xet-write-token", "xet-read-token":
		if n == 2 && get {
			return c.xetToken(c.rest[0] == "xet-write-token")
		}
	case "discussions":
		return c.discussions(c.rest[1:])
	}
	return errNoRoute
}
