package server

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/thox-ai/thoxbuild/hub/store"
)

const lfsJSON = "application/vnd.git-lfs+json"

type lfsObject struct {
	OID  string `json:"oid"`
	Size int64  `json:"size"`
}

type lfsAction struct {
	Href   string            `json:"href"`
	Header map[string]string `json:"header,omitempty"`
}

// maxParts is the most parts that one upload has; larger files get larger parts.
const maxParts = 9000

// git serves the LFS part of a repository's git URL; git itself is not served.
func (c *repoCall) git() error {
	p := strings.Join(c.rest, "/")
	switch {
	case c.r.Method == http.MethodPost && p == "info/lfs/objects/batch":
		return c.lfsBatch()
	case c.r.Method == http.MethodPost && p == "info/lfs/objects/verify":
		return c.lfsVerify()
	}
	return errNoRoute
}

func (c *repoCall) lfsBatch() error {
	var in struct {
		Operation string      `json:"operation"`
		Transfers []string    `json:"transfers"`
		Objects   []lfsObject `json:"objects"`
		HashAlgo  string      `json:"hash_algo"`
	}
	if err := c.body(&in); err != nil {
		return err
	}
	if in.HashAlgo != "" && in.HashAlgo != "sha256" {
		return badRequest("hash_algo %q: want sha256", clip(in.HashAlgo))
	}
	upload := in.Operation == "upload"
	if !upload && in.Operation != "download" {
		return badRequest("operation %q: want upload or download", clip(in.Operation))
	}
	if upload {
		// Readers may upload too: they may open pull requests.
		if err := c.needUser(); err != nil {
			return err
		}
	}
	transfer := "basic"
	for _, o := range in.Objects {
		if upload && o.Size > c.opts.PartSize && contains(in.Transfers, "multipart") {
			transfer = "multipart"
		}
	}
	out := []map[string]any{}
	for _, o := range in.Objects {
		item := map[string]any{"oid": o.OID, "size": o.Size}
		if have, err := c.repo.LFSSize(o.OID); err == nil && have == o.Size {
			if !upload {
				item["actions"] = map[string]any{"download": lfsAction{Href: c.capabilityURL("get/" + c.info.UID + "/" + o.OID)}}
			}
		} else if errors.Is(err, store.ErrInvalid) || o.Size < 0 || err == nil {
			item["error"] = map[string]any{"code": http.StatusUnprocessableEntity, "message": "the object id is no SHA-256, or the size is wrong"}
		} else if !errors.Is(err, store.ErrNoObject) {
			return err
		} else if !upload {
			item["error"] = map[string]any{"code": http.StatusNotFound, "message": "object not stored"}
		} else {
			item["actions"] = c.uploadActions(o, transfer)
		}
		out = append(out, item)
	}
	return c.replyAs(http.StatusOK, lfsJSON, map[string]any{"transfer": transfer, "objects": out, "hash_algo": "sha256"})
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

func (c *repoCall) uploadActions(o lfsObject, transfer string) map[string]lfsAction {
	key := c.info.UID + "/" + o.OID + "/" + strconv.FormatInt(o.Size, 10)
	verify := lfsAction{Href: c.base() + "/" + prefix(c.info.Type) + c.info.ID + ".git/info/lfs/objects/verify"}
	if transfer != "multipart" {
		return map[string]lfsAction{"upload": {Href: c.capabilityURL("put/" + key)}, "verify": verify}
	}
	chunk := max(c.opts.PartSize, (o.Size+maxParts-1)/maxParts)
	// A rerun of the same user meets the same session, and nobody else does.
	session := sha256.Sum256([]byte(c.sign("upload/"+c.who.User+"/"+key, chunk)))
	key = fmt.Sprintf("%s/%d/%x", key, chunk, session[:16])
	header := map[string]string{"chunk_size": strconv.FormatInt(chunk, 10)}
	for n := int64(1); (n-1)*chunk < o.Size; n++ {
		header[fmt.Sprintf("%05d", n)] = c.capabilityURL(fmt.Sprintf("part/%s/%d", key, n))
	}
	return map[string]lfsAction{"upload": {Href: c.capabilityURL("join/" + key), Header: header}, "verify": verify}
}

func (c *repoCall) lfsVerify() error {
	var in lfsObject
	if err := c.body(&in); err != nil {
		return err
	}
	have, err := c.repo.LFSSize(in.OID)
	if err != nil || have != in.Size {
		return &apiError{Status: http.StatusNotFound, Message: "object " + clip(in.OID) + " is not stored with that size"}
	}
	return c.replyAs(http.StatusOK, lfsJSON, map[string]any{})
}

// lfsData serves the capability URLs: get/UID/OID, put/UID/OID/SIZE,
// part/UID/OID/SIZE/CHUNK/SESSION/N and join/UID/OID/SIZE/CHUNK/SESSION. The
// grant covers all of it, so the numbers are our own.
func (c *call) lfsData(segs []string) error {
	if err := c.granted("lfs/"+strings.Join(segs, "/"), c.r.URL.Query().Get("grant")); err != nil {
		return err
	}
	if len(segs) < 3 {
		return errNoRoute
	}
	repo, err := c.store.RepoByUID(segs[1])
	if err != nil {
		return err
	}
	oid, num := segs[2], func(i int) int64 {
		if i >= len(segs) {
			return 0
		}
		n, _ := strconv.ParseInt(segs[i], 10, 64)
		return n
	}
	size := num(3)
	switch verb := segs[0]; {
	case verb == "get" && (c.r.Method == http.MethodGet || c.r.Method == http.MethodHead):
		f, err := repo.OpenLFS(oid)
		if err != nil {
			return err
		}
		defer f.Close()
		c.w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(c.w, c.r, "", repo.Info().CreatedAt, f)
		return nil
	case verb == "put" && c.r.Method == http.MethodPut:
		t, err := c.receive(size)
		if err != nil {
			return err
		}
		defer t.Close()
		if _, err := repo.PutLFS(t, oid); err != nil {
			return err
		}
	case verb == "part" && len(segs) == 7 && c.r.Method == http.MethodPut:
		u, n := store.Upload{SHA256: oid, Size: size, Chunk: num(4), Session: segs[5]}, int(num(6))
		if have := c.r.ContentLength; have >= 0 && have != u.PartSize(n) {
			return badRequest("part %d has %d bytes, %d were announced", n, have, u.PartSize(n))
		}
		if err := repo.PutPart(u, n, c.r.Body); err != nil {
			return err
		}
		c.w.Header().Set("ETag", `"`+u.ETag(n)+`"`)
	case verb == "join" && len(segs) == 6 && c.r.Method == http.MethodPost:
		return c.join(repo, store.Upload{SHA256: oid, Size: size, Chunk: num(4), Session: segs[5]})
	default:
		return errNoRoute
	}
	c.w.Header().Set("Content-Length", "0")
	c.w.WriteHeader(http.StatusOK)
	return nil
}

// receive reads a body of exactly size bytes into a file.
func (c *call) receive(size int64) (*store.Temp, error) {
	if n := c.r.ContentLength; n >= 0 && n != size {
		return nil, badRequest("body has %d bytes, %d were announced", n, size)
	}
	t, err := c.store.NewTemp()
	if err != nil {
		return nil, err
	}
	buf := make([]byte, 256<<10)
	n, err := io.CopyBuffer(t, io.LimitReader(c.r.Body, size+1), buf)
	if err == nil && n != size {
		err = badRequest("body has not the %d bytes that were announced", size)
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (c *call) join(repo *store.Repo, u store.Upload) error {
	var in struct {
		OID   string `json:"oid"`
		Parts []struct {
			Number int    `json:"partNumber"`
			ETag   string `json:"etag"`
		} `json:"parts"`
	}
	if err := c.body(&in); err != nil {
		return err
	}
	if in.OID != "" && in.OID != u.SHA256 {
		return badRequest("completion names object %s, the URL is for %s", clip(in.OID), u.SHA256)
	}
	var etags []string
	for i, p := range in.Parts {
		if p.Number != i+1 {
			return badRequest("part %d stands where part %d is wanted", p.Number, i+1)
		}
		etags = append(etags, strings.Trim(p.ETag, `"`))
	}
	if err := repo.JoinParts(c.ctx, u, etags); err != nil {
		return err
	}
	return c.replyAs(http.StatusOK, lfsJSON, map[string]any{"oid": u.SHA256, "size": u.Size})
}
