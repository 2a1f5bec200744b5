package memhub

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

type reply struct {
	status int
	code   string
	body   any
}

func ok(body any) reply { return reply{http.StatusOK, "", body} }

func fail(status int, code, msg string) reply {
	return reply{status, code, map[string]string{"error": msg}}
}

// ServeHTTP implements http.Handler.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.Tamper != nil && h.Tamper(w, r) {
		return
	}
	seg := strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	for i := range seg {
		seg[i], _ = url.PathUnescape(seg[i])
	}
	if seg[0] == "store" {
		if r.Header.Get("Authorization") != "" {
			http.Error(w, "a presigned address got an Authorization header", http.StatusBadRequest)
			return
		}
		h.store(w, r, seg[1:])
		return
	}
	if h.Token != "" && r.Header.Get("Authorization") != "Bearer "+h.Token {
		http.Error(w, `{"error":"Invalid credentials in Authorization header"}`, http.StatusUnauthorized)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "cut body", http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	rep := h.route(w, r, seg, body)
	if rep.status == 0 {
		return
	}
	if rep.code != "" {
		w.Header().Set("X-Error-Code", rep.code)
	}
	w.Header().Set("Content-Type", "application/json")
	b, _ := json.Marshal(rep.body)
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(rep.status)
	_, _ = w.Write(b)
}

func (h *Hub) route(w http.ResponseWriter, r *http.Request, seg []string, body []byte) reply {
	path := strings.Join(seg, "/")
	switch {
	case path == "api/repos/create":
		return h.create(r, body)
	case path == "api/validate-yaml":
		return ok(map[string]any{"errors": []any{}, "warnings": []any{}})
	case seg[0] == "api" && len(seg) >= 5:
		repo := h.Repos[strings.Join(seg[1:4], "/")]
		if repo == nil {
			return fail(404, "RepoNotFound", "Repository not found")
		}
		return h.api(w, r, repo, strings.Join(seg[1:4], "/"), seg[4], seg[5:], body)
	case len(seg) >= 6 && seg[0] == "kernels" && strings.HasSuffix(seg[2], ".git"):
		return h.batch(r, h.Repos["kernels/"+seg[1]+"/"+strings.TrimSuffix(seg[2], ".git")], "kernels/"+seg[1]+"/"+strings.TrimSuffix(seg[2], ".git"), body)
	case len(seg) >= 6 && seg[0] == "kernels" && seg[3] == "resolve":
		return h.resolve(w, r, h.Repos[strings.Join(seg[:3], "/")], seg[4], strings.Join(seg[5:], "/"))
	}
	return fail(404, "", "no such route: "+path)
}

func (h *Hub) create(r *http.Request, body []byte) reply {
	var in struct{ Name, Organization, Type, Visibility string }
	if err := json.Unmarshal(body, &in); err != nil {
		return fail(400, "", err.Error())
	}
	id := in.Type + "s/" + in.Organization + "/" + in.Name
	out := map[string]string{"url": "http://" + r.Host + "/" + id}
	if h.Repos[id] != nil {
		return reply{409, "", out}
	}
	h.Repos[id] = newRepo()
	h.Repos[id].Private = in.Visibility == "private"
	return ok(out)
}

func (r *Repo) resolve(rev string) *Commit {
	if n, ok := strings.CutPrefix(rev, "refs/pr/"); ok {
		i, _ := strconv.Atoi(n)
		if i >= 1 && i <= len(r.PRs) {
			return r.Commits[r.PRs[i-1]]
		}
		return nil
	}
	if id, ok := r.Branches[strings.TrimPrefix(rev, "refs/heads/")]; ok {
		return r.Commits[id]
	}
	return r.Commits[rev]
}

func (h *Hub) api(w http.ResponseWriter, r *http.Request, repo *Repo, id, verb string, rest []string, body []byte) reply {
	rev := ""
	if len(rest) > 0 {
		rev = rest[0]
	}
	at := repo.resolve(rev)
	switch {
	case verb == "refs":
		return ok(repo.refs())
	case verb == "branch":
		if _, there := repo.Branches[rev]; there {
			return fail(409, "", "Reference refs/heads/"+rev+" already exists")
		}
		var in struct{ StartingPoint string }
		_ = json.Unmarshal(body, &in)
		from := repo.resolve("main")
		if in.StartingPoint != "" {
			from = repo.resolve(in.StartingPoint)
		}
		if from == nil {
			return fail(404, "RevisionNotFound", "Invalid rev id: "+in.StartingPoint)
		}
		repo.Branches[rev] = from.ID
		return ok(map[string]any{})
	case at == nil:
		return fail(404, "RevisionNotFound", "Invalid rev id: "+rev)
	case verb == "revision":
		return ok(map[string]string{"id": id, "sha": at.ID})
	case verb == "commits":
		out := []map[string]string{}
		for c := at; c != nil; c = repo.Commits[c.Parent] {
			out = append(out, map[string]string{"id": c.ID, "title": c.Title})
		}
		return ok(out)
	case verb == "tree":
		return h.tree(w, r, at, strings.Join(rest[1:], "/"))
	case verb == "paths-info":
		var in struct{ Paths []string }
		_ = json.Unmarshal(body, &in)
		out := []any{}
		for _, p := range in.Paths {
			if f, there := at.Files[p]; there {
				out = append(out, entry(p, f))
			}
		}
		return ok(out)
	case verb == "preupload":
		return h.preupload(at, body)
	case verb == "commit":
		return h.commit(r, repo, id, rev, at, body)
	}
	return fail(404, "", "no such call: "+verb)
}

func (r *Repo) refs() any {
	type ref struct {
		Name         string `json:"name"`
		Ref          string `json:"ref"`
		TargetCommit string `json:"targetCommit"`
	}
	branches, prs := []ref{}, []ref{}
	for _, b := range slices.Sorted(maps.Keys(r.Branches)) {
		branches = append(branches, ref{b, "refs/heads/" + b, r.Branches[b]})
	}
	for i, c := range r.PRs {
		prs = append(prs, ref{strconv.Itoa(i + 1), fmt.Sprintf("refs/pr/%d", i+1), c})
	}
	return map[string]any{"branches": branches, "tags": []ref{}, "converts": []ref{}, "pullRequests": prs}
}

func entry(p string, f File) map[string]any {
	e := map[string]any{"type": "file", "path": p, "size": len(f.Data), "oid": blobID(f.Data)}
	if f.LFS {
		e["lfs"] = map[string]any{"oid": sum(f.Data), "size": len(f.Data), "pointerSize": 130}
	}
	return e
}

func (h *Hub) tree(w http.ResponseWriter, r *http.Request, at *Commit, under string) reply {
	all := []any{}
	for _, p := range slices.Sorted(maps.Keys(at.Files)) {
		if under == "" || strings.HasPrefix(p, under+"/") {
			all = append(all, entry(p, at.Files[p]))
		}
	}
	if under != "" && len(all) == 0 {
		return fail(404, "EntryNotFound", under+" does not exist")
	}
	if h.PageSize > 0 {
		from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
		if to := from + h.PageSize; to < len(all) {
			q := r.URL.Query()
			q.Set("cursor", strconv.Itoa(to))
			w.Header().Set("Link", fmt.Sprintf(`<http://%s%s?%s>; rel="next"`, r.Host, r.URL.EscapedPath(), q.Encode()))
			return ok(all[from:to])
		}
		all = all[from:]
	}
	return ok(all)
}

func (h *Hub) preupload(at *Commit, body []byte) reply {
	var in struct {
		Files []struct {
			Path   string
			Size   int64
			Sample []byte
		}
	}
	if err := json.Unmarshal(body, &in); err != nil || len(in.Files) > 256 {
		return fail(400, "", "bad preupload")
	}
	out := []any{}
	for _, f := range in.Files {
		mode := "regular"
		if f.Size >= h.LFSThreshold {
			mode = "lfs"
		}
		out = append(out, map[string]any{"path": f.Path, "uploadMode": mode, "shouldIgnore": h.Ignore != "" && strings.HasSuffix(f.Path, h.Ignore)})
	}
	return ok(map[string]any{"files": out, "commitOid": at.ID})
}

func (h *Hub) resolve(w http.ResponseWriter, r *http.Request, repo *Repo, rev, path string) reply {
	if repo == nil {
		return fail(404, "RepoNotFound", "Repository not found")
	}
	at := repo.resolve(rev)
	if at == nil {
		return fail(404, "RevisionNotFound", "Invalid rev id: "+rev)
	}
	f, there := at.Files[path]
	if !there {
		return fail(404, "EntryNotFound", "Entry not found")
	}
	w.Header().Set("X-Repo-Commit", at.ID)
	data, status := f.Data, http.StatusOK
	if from, found := strings.CutPrefix(r.Header.Get("Range"), "bytes="); found {
		n, _ := strconv.Atoi(strings.TrimSuffix(from, "-"))
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", n, len(data)-1, len(data)))
		data, status = data[n:], http.StatusPartialContent
	}
	w.Header().Set("ETag", `"`+blobID(f.Data)+`"`)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data)
	return reply{}
}
