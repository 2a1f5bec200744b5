package server

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/thox-ai/thoxbuild/hub/store"
)

func (c *call) whoami() error {
	if err := c.needUser(); err != nil {
		return err
	}
	orgs := []map[string]any{}
	for _, ns := range c.who.Namespaces {
		if ns != c.who.User {
			orgs = append(orgs, map[string]any{"type": "org", "name": ns, "fullname": ns, "roleInOrg": c.who.Role})
		}
	}
	return c.reply(http.StatusOK, map[string]any{
		"type": "user", "id": c.who.User, "name": c.who.User, "fullname": c.who.User, "email": "", "orgs": orgs,
		"auth": map[string]any{"type": "access_token", "accessToken": map[string]any{
			"displayName": c.who.Name, "role": c.who.Role, "createdAt": c.who.CreatedAt.UTC().Format(time.RFC3339Nano),
		}},
	})
}

// sees reports whether the namespace holds a repository that the caller may read.
func (c *call) sees(ns string) bool {
	return slices.ContainsFunc(c.store.List(), func(i store.Info) bool {
		return i.Namespace() == ns && (!i.Private || !c.anon && c.who.May(ns))
	})
}

// orgOverview answers for every namespace that has a repository. The loader
// asks whether to trust its kernels: whoever runs this Hub chose what is on it.
func (c *call) orgOverview(ns string) error {
	if !c.sees(ns) {
		return &apiError{Status: http.StatusNotFound, Message: "This organization does not exist"}
	}
	return c.reply(http.StatusOK, map[string]any{"name": ns, "fullname": ns, "avatarUrl": "", "trustedKernelPublisher": true})
}

func (c *call) userOverview(name string) error {
	if !c.sees(name) && name != c.who.User {
		return &apiError{Status: http.StatusNotFound, Message: "This user does not exist"}
	}
	return c.reply(http.StatusOK, map[string]any{"user": name, "fullname": name, "avatarUrl": "", "type": "user"})
}

// validateYAML looks at the front matter of a card. It is no YAML parser: it
// reports what would keep the block from being found at all.
func (c *call) validateYAML() error {
	var in struct {
		Content string `json:"content"`
	}
	if err := c.body(&in); err != nil {
		return err
	}
	type msg struct {
		Message string `json:"message"`
	}
	errs, warns := []msg{}, []msg{}
	text := strings.ReplaceAll(strings.TrimPrefix(in.Content, "\ufeff"), "\r\n", "\n")
	if block, ok := strings.CutPrefix(text, "---\n"); !ok {
		warns = append(warns, msg{"empty or missing yaml metadata in the repository's card"})
	} else if head, _, ok := strings.Cut("\n"+block, "\n---"); !ok {
		errs = append(errs, msg{"the yaml metadata block that line 1 opens is never closed with ---"})
	} else if strings.Contains(head, "\n\t") {
		errs = append(errs, msg{"the yaml metadata is indented with a tab; yaml allows spaces only"})
	}
	status := http.StatusOK
	if len(errs) > 0 {
		status = http.StatusBadRequest
		c.w.Header().Set("X-Error-Message", errs[0].Message)
	}
	return c.reply(status, map[string]any{"errors": errs, "warnings": warns})
}
