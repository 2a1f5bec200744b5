package server

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"time"

	"github.com/thox-ai/thoxbuild/hub/store"
)

// resolve serves a file's bytes, with single ranges. A HEAD is never answered
// 304: one client would then keep the commit of a branch that has moved.
func (c *repoCall) resolve(rev, file string) error {
	if c.r.Method != http.MethodGet && c.r.Method != http.MethodHead {
		return &apiError{Status: http.StatusMethodNotAllowed, Message: "want GET or HEAD"}
	}
	id, err := c.repo.Resolve(rev)
	if err != nil {
		return err
	}
	h := c.w.Header()
	h.Set("X-Repo-Commit", id.String()) // also with EntryNotFound: caches note it
	e, err := c.repo.Stat(id, file)
	if err == nil && e.Dir {
		err = store.ErrEntryNotFound
	}
	if errors.Is(err, store.ErrEntryNotFound) {
		return &apiError{Status: http.StatusNotFound, Code: codeEntry, Message: "Entry not found"}
	}
	if err != nil {
		return err
	}
	var content io.ReadSeeker
	if e.LFS != nil {
		f, err := c.repo.OpenLFS(e.LFS.SHA256)
		if err != nil {
			return err
		}
		defer f.Close()
		content = f
		h.Set("X-Linked-Size", strconv.FormatInt(e.Size, 10))
		h.Set("X-Linked-ETag", `"`+e.ETag()+`"`)
	} else {
		data, err := c.repo.Blob(e.ID)
		if err != nil {
			return err
		}
		content = bytes.NewReader(data)
	}
	h.Set("ETag", `"`+e.ETag()+`"`)
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(file)}))
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	req := c.r
	if req.Method == http.MethodHead {
		req = req.Clone(c.ctx)
		for _, name := range []string{"If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since", "Range"} {
			req.Header.Del(name)
		}
	}
	// The recorder is left out of the way, so that the kernel can send the file.
	w := c.w
	if rec, ok := w.(*recorder); ok {
		rec.status = http.StatusOK
		w = rec.ResponseWriter
	}
	http.ServeContent(w, req, "", time.Time{}, content)
	return nil
}
