package memhub

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
)

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
