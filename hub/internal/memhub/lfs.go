package memhub

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

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
