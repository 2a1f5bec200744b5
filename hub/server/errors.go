package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"syscall"

	"github.com/thox-ai/thoxbuild/hub/store"
)

// apiError is an answer other than success. Clients decide by status and Code.
type apiError struct {
	Status  int
	Code    string // X-Error-Code
	Message string
	Extra   map[string]any // more keys of the body
}

func (e *apiError) Error() string { return e.Message }

// The values of X-Error-Code that clients know.
const (
	codeRepo     = "RepoNotFound"
	codeRevision = "RevisionNotFound"
	codeEntry    = "EntryNotFound"
)

func badRequest(format string, args ...any) error {
	return &apiError{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...)}
}

var errNoRoute = &apiError{Status: http.StatusNotFound, Message: "no such page"}

// toAPI gives every error of the store its status.
func toAPI(err error) *apiError {
	var api *apiError
	var tooLarge *http.MaxBytesError
	e := &apiError{Status: http.StatusInternalServerError, Message: err.Error()}
	switch {
	case errors.As(err, &api):
		return api
	case errors.Is(err, store.ErrRepoNotFound):
		e.Status, e.Code, e.Message = http.StatusNotFound, codeRepo, "Repository not found"
	case errors.Is(err, store.ErrRevisionNotFound):
		e.Status, e.Code = http.StatusNotFound, codeRevision
	case errors.Is(err, store.ErrEntryNotFound):
		e.Status, e.Code = http.StatusNotFound, codeEntry
	case errors.Is(err, store.ErrExists), errors.Is(err, store.ErrConflict):
		e.Status = http.StatusConflict
	case errors.Is(err, store.ErrStale):
		e.Status = http.StatusPreconditionFailed
		e.Message = "The branch was updated since you opened this page. Please refresh and try again. (" + err.Error() + ")"
	case errors.Is(err, store.ErrForbidden):
		e.Status = http.StatusForbidden
	case errors.Is(err, store.ErrInvalid), errors.Is(err, store.ErrNoObject):
		e.Status = http.StatusBadRequest
	case errors.As(err, &tooLarge):
		e.Status = http.StatusRequestEntityTooLarge
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Status, e.Message = http.StatusInsufficientStorage, "the Hub's disk is full; nothing was changed"
	case errors.Is(err, syscall.EROFS):
		e.Status, e.Message = http.StatusInsufficientStorage, "the Hub's disk is read-only; nothing was changed"
	}
	return e
}

// fail answers an error, unless an answer has begun: then the connection is
// cut, so that the client sees a cut answer and not a short file.
func (c *call) fail(err error) {
	if rec, ok := c.w.(*recorder); ok && rec.status != 0 {
		panic(http.ErrAbortHandler)
	}
	e := toAPI(err)
	h := c.w.Header()
	h.Del("Content-Length")
	h.Del("ETag")
	if e.Code != "" {
		h.Set("X-Error-Code", e.Code)
	}
	if e.Status == http.StatusInternalServerError && c.opts.Log != nil {
		c.opts.Log.Error("internal error", "err", err)
	}
	h.Set("X-Error-Message", headerText(e.Message))
	if e.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="hub"`)
	}
	body := map[string]any{"error": e.Message}
	maps.Copy(body, e.Extra)
	// The Hub's own 400s of validate-yaml name a list, which Extra holds.
	c.reply(e.Status, body)
}

func headerText(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return ' '
		}
		return r
	}, s)
}

// reply answers JSON.
func (c *call) reply(status int, v any) error {
	return c.replyAs(status, "application/json; charset=utf-8", v)
}

func (c *call) replyAs(status int, contentType string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", contentType)
	c.w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	c.w.WriteHeader(status)
	if c.r.Method != http.MethodHead {
		c.w.Write(b) // the client is gone if this fails
	}
	return nil
}

// maxJSON bounds the bodies that are read whole.
const maxJSON = 32 << 20

// body reads a JSON body; keys that are not known are ignored.
func (c *call) body(v any) error {
	dec := json.NewDecoder(http.MaxBytesReader(c.w, c.r.Body, maxJSON))
	if err := dec.Decode(v); err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return err
		}
		return badRequest("body: want a JSON object: %v", err)
	}
	return nil
}
