package server

import (
	"errors"
	"net/http"
	"time"

	"github.com/thox-ai/thoxbuild/hub/store"
)

// repoRequest is the body of create and delete, in the forms of the Python and
// the Rust client.
type repoRequest struct {
	Name         string  `json:"name"`
	Organization *string `json:"organization"`
	Type         string  `json:"type"`
	Visibility   string  `json:"visibility"`
	Private      bool    `json:"private"`
}

func (c *call) repoRequest() (in repoRequest, t store.Type, id string, err error) {
	if err := c.body(&in); err != nil {
		return in, "", "", err
	}
	ns := c.who.User
	if in.Organization != nil && *in.Organization != "" {
		ns = *in.Organization
	}
	if in.Type == "" {
		in.Type = string(store.Model)
	}
	t, ok := typeOf(in.Type + "s")
	if !ok {
		return in, "", "", badRequest("repository type %q: want model, kernel, dataset or space", in.Type)
	}
	return in, t, ns + "/" + in.Name, nil
}

func (c *call) createRepo() error {
	if err := c.needUser(); err != nil {
		return err
	}
	in, t, id, err := c.repoRequest()
	if err != nil {
		return err
	}
	if err := store.CheckRepoID(id); err != nil {
		return err
	}
	if err := c.mayWrite(store.Info{ID: id}.Namespace()); err != nil {
		return err
	}
	r, err := c.store.Create(t, id, store.CreateOptions{Private: in.Private || in.Visibility == "private", Author: c.who.User})
	url := c.base() + "/" + prefix(t) + id
	if errors.Is(err, store.ErrExists) {
		return &apiError{Status: http.StatusConflict, Message: "You already created this " + string(t) + " repo", Extra: map[string]any{"url": url}}
	}
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, map[string]any{"url": url, "name": id, "id": r.UID()})
}

func (c *call) deleteRepo() error {
	_, t, id, err := c.repoRequest()
	if err != nil {
		return err
	}
	r, err := c.findRepo(t, id)
	if err != nil {
		return err
	}
	if err := c.mayWrite(r.Info().Namespace()); err != nil {
		return err
	}
	if err := c.store.Delete(t, id); err != nil {
		return err
	}
	return c.reply(http.StatusOK, map[string]any{})
}

func (c *call) moveRepo() error {
	var in struct {
		From string `json:"fromRepo"`
		To   string `json:"toRepo"`
		Type string `json:"type"`
	}
	if err := c.body(&in); err != nil {
		return err
	}
	if in.Type == "" {
		in.Type = string(store.Model)
	}
	t, ok := typeOf(in.Type + "s")
	if !ok {
		return badRequest("repository type %q: want model, kernel, dataset or space", in.Type)
	}
	r, err := c.findRepo(t, in.From)
	if err != nil {
		return err
	}
	for _, ns := range []string{r.Info().Namespace(), store.Info{ID: in.To}.Namespace()} {
		if err := c.mayWrite(ns); err != nil {
			return err
		}
	}
	if err := c.store.Move(t, r.Info().ID, in.To); err != nil {
		return err
	}
	return c.reply(http.StatusOK, map[string]any{})
}

func (c *repoCall) settings() error {
	if err := c.mayWrite(c.info.Namespace()); err != nil {
		return err
	}
	var in struct {
		Visibility string `json:"visibility"`
		Private    *bool  `json:"private"`
	}
	if err := c.body(&in); err != nil {
		return err
	}
	switch {
	case in.Visibility == "private" || in.Visibility == "public":
		private := in.Visibility == "private"
		in.Private = &private
	case in.Visibility != "":
		return badRequest("visibility %q: want public or private", in.Visibility)
	}
	if in.Private != nil {
		if err := c.store.SetPrivate(c.repo, *in.Private); err != nil {
			return err
		}
	}
	return c.reply(http.StatusOK, map[string]any{"private": c.repo.Info().Private})
}

func (c *call) listRepos(t store.Type) error {
	list := []map[string]any{}
	q := c.r.URL.Query()
	for _, i := range c.store.List() {
		if i.Type != t || i.Private && (c.anon || !c.who.May(i.Namespace())) {
			continue
		}
		if a := q.Get("author"); a != "" && a != i.Namespace() {
			continue
		}
		list = append(list, map[string]any{"_id": i.UID, "id": i.ID, "modelId": i.ID, "private": i.Private, "createdAt": date(i.CreatedAt), "likes": 0, "downloads": 0, "tags": []string{}})
	}
	return c.reply(http.StatusOK, list)
}

// date is the only form of time that all clients read.
func date(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func (c *repoCall) repoInfo(rev string) error {
	id, err := c.repo.Resolve(rev)
	if err != nil {
		return err
	}
	head, err := c.repo.Commit(id)
	if err != nil {
		return err
	}
	out := map[string]any{
		"_id": c.info.UID, "id": c.info.ID, "author": c.info.Namespace(), "sha": id.String(), "private": c.info.Private,
		"gated": false, "disabled": false, "downloads": 0, "likes": 0, "createdAt": date(c.info.CreatedAt), "lastModified": date(head.Time),
	}
	if c.info.Type == store.Kernel {
		out["repoType"], out["trustedPublisher"], out["isLikedByUser"] = "kernel", true, false
		out["authorData"] = map[string]any{"name": c.info.Namespace(), "type": "org"}
		out["supportedDriverFamilies"] = []string{}
		return c.reply(http.StatusOK, out)
	}
	out["modelId"], out["tags"] = c.info.ID, []string{}
	list, err := c.repo.List(id, "", true)
	if err != nil {
		return err
	}
	siblings := []map[string]any{}
	blobs := c.r.URL.Query().Get("blobs") == "true"
	for _, e := range list {
		if e.Dir {
			continue
		}
		sib := map[string]any{"rfilename": e.Path}
		if blobs {
			if err := c.repo.Detail(&e); err != nil {
				return err
			}
			sib["size"], sib["blobId"] = e.Size, e.ID.String()
			if e.LFS != nil {
				sib["lfs"] = map[string]any{"sha256": e.LFS.SHA256, "size": e.Size, "pointerSize": e.PointerSize}
			}
		}
		siblings = append(siblings, sib)
	}
	out["siblings"] = siblings
	return c.reply(http.StatusOK, out)
}
