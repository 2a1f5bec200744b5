// Package memhub is a Hub in memory for the tests of this room's clients. It
// knows its own state, so a test can ask what really happened, and it can be
// told to lie. It is written from the protocol alone and shares no code with
// the clients or with the embedded server.
package memhub

import (
	"bufio"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// File is a stored file.
type File struct {
	Data []byte
	LFS  bool
}

// Commit is a stored commit with its whole tree.
type Commit struct {
	ID, Parent, Title, Message string
	Files                      map[string]File
}

// Repo is a repository.
type Repo struct {
	Branches map[string]string
	PRs      []string // heads of refs/pr/1, 2, ...
	Commits  map[string]*Commit
	Objects  map[string][]byte // LFS by SHA-256
	Private  bool
}

// Hub is an http.Handler.
type Hub struct {
	mu    sync.Mutex
	Repos map[string]*Repo // "kernels/ns/name"

	// Token is what calls must carry, if set.
	Token string
	// LFSThreshold sends files of that size and more to LFS.
	LFSThreshold int64
	// ChunkSize makes LFS uploads multipart, if set.
	ChunkSize int64
	// PageSize pages tree listings, if set.
	PageSize int
	// Ignore is a path suffix that preupload says to ignore.
	Ignore string
	// Received counts the bytes of LFS bodies and commits.
	Received int64
	// Puts counts finished uploads by LFS object.
	Puts map[string]int
	// Tamper, if set, may answer a request instead.
	Tamper func(w http.ResponseWriter, r *http.Request) bool

	parts map[string]map[int][]byte
}

// New returns an empty Hub that keeps files of 1 kB and more in LFS.
func New() *Hub {
	return &Hub{Repos: map[string]*Repo{}, LFSThreshold: 1024, Puts: map[string]int{}, parts: map[string]map[int][]byte{}}
}

// With runs f under the lock, to look at the state.
func (h *Hub) With(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// Head returns a branch's head commit, or nil.
func (h *Hub) Head(repo, branch string) *Commit {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.Repos[repo]
	if r == nil {
		return nil
	}
	return r.Commits[r.Branches[branch]]
}

// History lists a branch's commits, newest first.
func (h *Hub) History(repo, branch string) (out []*Commit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.Repos[repo]
	if r == nil {
		return nil
	}
	for c := r.Commits[r.Branches[branch]]; c != nil; c = r.Commits[c.Parent] {
		out = append(out, c)
	}
	return out
}

// Put commits files directly, as another publisher would.
func (h *Hub) Put(repo, branch string, change func(files map[string]File)) *Commit {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.Repos[repo]
	if r == nil {
		r = newRepo()
		h.Repos[repo] = r
	}
	head := r.Branches[branch]
	if head == "" {
		head = r.Branches["main"]
	}
	c := r.Commits[head].child("direct", "")
	change(c.Files)
	r.add(c)
	r.Branches[branch] = c.ID
	return c
}

func newRepo() *Repo {
	r := &Repo{Branches: map[string]string{}, Commits: map[string]*Commit{}, Objects: map[string][]byte{}}
	c := &Commit{Title: "initial commit", Files: map[string]File{".gitattributes": {Data: []byte("*.so filter=lfs\n")}}}
	r.add(c)
	r.Branches["main"] = c.ID
	return r
}

func (c *Commit) child(title, message string) *Commit {
	return &Commit{Parent: c.ID, Title: title, Message: message, Files: maps.Clone(c.Files)}
}

func (r *Repo) add(c *Commit) {
	h := sha1.New()
	fmt.Fprintf(h, "%s\n%s\n%s\n%d\n", c.Parent, c.Title, c.Message, len(r.Commits))
	for _, p := range slices.Sorted(maps.Keys(c.Files)) {
		fmt.Fprintf(h, "%s %s\n", p, blobID(c.Files[p].Data))
	}
	c.ID = hex.EncodeToString(h.Sum(nil))
	r.Commits[c.ID] = c
}

func blobID(b []byte) string {
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(b))
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

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

func (h *Hub) batch(r *http.Request, repo *Repo, id string, body []byte) reply {
	if repo == nil {
		return fail(404, "RepoNotFound", "Repository not found")
	}
	var in struct {
		Objects []struct {
			OID  string
			Size int64
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return fail(400, "", err.Error())
	}
	out := []any{}
	base := "http://" + r.Host + "/store/" + id + "/"
	transfer := "basic"
	if h.ChunkSize > 0 {
		transfer = "multipart"
	}
	for _, o := range in.Objects {
		obj := map[string]any{"oid": o.OID, "size": o.Size}
		if repo.Objects[o.OID] == nil {
			up := map[string]any{"href": base + "put/" + o.OID + "?sig=very-secret", "header": map[string]string{"X-Store": "yes"}}
			if h.ChunkSize > 0 {
				header := map[string]string{"chunk_size": strconv.FormatInt(h.ChunkSize, 10)}
				for n := int64(1); (n-1)*h.ChunkSize < o.Size; n++ {
					header[fmt.Sprintf("%05d", n)] = fmt.Sprintf("%spart/%s/%d?sig=very-secret", base, o.OID, n)
				}
				up = map[string]any{"href": base + "complete/" + o.OID + "?sig=very-secret", "header": header}
			}
			obj["actions"] = map[string]any{"upload": up}
		}
		out = append(out, obj)
	}
	return ok(map[string]any{"transfer": transfer, "objects": out})
}

// store takes LFS bodies: put/OID, part/OID/N and complete/OID below a
// repository's id of three segments.
func (h *Hub) store(w http.ResponseWriter, r *http.Request, seg []string) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.ContentLength >= 0 && int64(len(body)) != r.ContentLength {
		http.Error(w, "cut body", http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Received += int64(len(body))
	repo := h.Repos[strings.Join(seg[:3], "/")]
	oid := seg[4]
	switch seg[3] {
	case "put":
		if r.Header.Get("X-Store") != "yes" {
			http.Error(w, "the action's header is missing", http.StatusBadRequest)
			return
		}
		h.keep(w, repo, oid, body)
	case "part":
		n, _ := strconv.Atoi(seg[5])
		if h.parts[oid] == nil {
			h.parts[oid] = map[int][]byte{}
		}
		h.parts[oid][n] = body
		w.Header().Set("ETag", `"`+sum(body)[:16]+`"`)
	case "complete":
		var in struct {
			Parts []struct {
				PartNumber int
				ETag       string
			}
		}
		_ = json.Unmarshal(body, &in)
		var whole []byte
		for i, p := range in.Parts {
			part := h.parts[oid][p.PartNumber]
			if p.PartNumber != i+1 || p.ETag != `"`+sum(part)[:16]+`"` {
				http.Error(w, "parts out of order or wrong", http.StatusBadRequest)
				return
			}
			whole = append(whole, part...)
		}
		h.keep(w, repo, oid, whole)
	}
}

func (h *Hub) keep(w http.ResponseWriter, repo *Repo, oid string, data []byte) {
	if sum(data) != oid {
		http.Error(w, "the content's SHA-256 is another", http.StatusBadRequest)
		return
	}
	repo.Objects[oid] = data
	h.Puts[oid]++
}

func (h *Hub) commit(r *http.Request, repo *Repo, id, rev string, at *Commit, body []byte) reply {
	h.Received += int64(len(body))
	createPR := r.URL.Query().Get("create_pr") == "1"
	var next *Commit
	in := bufio.NewReader(strings.NewReader(string(body)))
	for {
		l, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		var op struct {
			Key   string
			Value struct {
				Summary, Description, ParentCommit string
				Path, Content, OID                 string
			}
		}
		if err := json.Unmarshal(l, &op); err != nil {
			return fail(400, "", err.Error())
		}
		v := op.Value
		switch op.Key {
		case "header":
			if v.ParentCommit != "" && v.ParentCommit != at.ID && !createPR {
				return fail(412, "", "The branch was updated since you opened this page. Please refresh and try again.")
			}
			next = at.child(v.Summary, v.Description)
		case "file":
			data, err := base64.StdEncoding.DecodeString(v.Content)
			if err != nil {
				return fail(400, "", err.Error())
			}
			next.Files[v.Path] = File{Data: data}
		case "lfsFile":
			data, there := repo.Objects[v.OID]
			if !there {
				return fail(400, "", "object "+v.OID+" was never uploaded")
			}
			next.Files[v.Path] = File{data, true}
		case "deletedFile":
			if _, there := next.Files[v.Path]; !there {
				return fail(404, "EntryNotFound", "A file with this name doesn't exist")
			}
			delete(next.Files, v.Path)
		case "deletedFolder":
			maps.DeleteFunc(next.Files, func(p string, _ File) bool { return strings.HasPrefix(p, v.Path) })
		}
	}
	if next == nil {
		return fail(400, "", "no header")
	}
	repo.add(next)
	out := map[string]any{"success": true, "commitOid": next.ID, "commitUrl": "http://" + r.Host + "/" + id + "/commit/" + next.ID}
	n, isPR := strings.CutPrefix(rev, "refs/pr/")
	switch {
	case createPR:
		repo.PRs = append(repo.PRs, next.ID)
		out["pullRequestUrl"] = fmt.Sprintf("http://%s/%s/discussions/%d", r.Host, id, len(repo.PRs))
	case isPR:
		i, _ := strconv.Atoi(n)
		repo.PRs[i-1] = next.ID
	default:
		repo.Branches[rev] = next.ID
	}
	return ok(out)
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
