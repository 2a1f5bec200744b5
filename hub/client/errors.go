package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// What a caller may branch on. An *Error matches them with errors.Is.
var (
	ErrRepoNotFound     = errors.New("repository not found")
	ErrRevisionNotFound = errors.New("revision not found")
	ErrEntryNotFound    = errors.New("file not found")
	ErrUnauthorized     = errors.New("not authorized")
	ErrForbidden        = errors.New("forbidden")
	ErrExists           = errors.New("already exists")
	// ErrParentMoved is the answer to a commit whose parent is no longer the
	// head (HTTP 412).
	ErrParentMoved = errors.New("the branch has moved")
	// ErrUncertain marks a commit of which nobody can say whether it was
	// applied: the request went out and no usable answer came back. Compare
	// the head before sending it again.
	ErrUncertain = errors.New("the outcome is unknown")
)

// Error is an answer other than success.
type Error struct {
	// Op says what was being done, as in "create repository".
	Op string
	// Method and URL are the request; the URL has neither query nor user
	// information, because presigned ones are secrets.
	Method, URL string
	Status      int
	// Code is the X-Error-Code header, such as "RevisionNotFound".
	Code string
	// Message is the server's own text, without the token.
	Message   string
	RequestID string
	Attempts  int
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s %s: %d %s", e.Op, e.Method, e.URL, e.Status, http.StatusText(e.Status))
	if e.Message != "" {
		fmt.Fprintf(&b, ": %s", e.Message)
	}
	if e.Attempts > 1 {
		fmt.Fprintf(&b, " (after %d attempts)", e.Attempts)
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, " (request %s)", e.RequestID)
	}
	return b.String()
}

// Is implements the match with this package's sentinels.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrRepoNotFound:
		return e.Code == "RepoNotFound"
	case ErrRevisionNotFound:
		return e.Code == "RevisionNotFound"
	case ErrEntryNotFound:
		return e.Code == "EntryNotFound"
	case ErrUnauthorized:
		return e.Status == http.StatusUnauthorized
	case ErrForbidden:
		return e.Status == http.StatusForbidden
	case ErrExists:
		return e.Status == http.StatusConflict
	case ErrParentMoved:
		return e.Status == http.StatusPreconditionFailed
	}
	return false
}

// maxErrorBody bounds what is read of an error's body; a text for people is
// never longer.
const maxErrorBody = 64 << 10

// responseError reads an error answer. It never fails: a body that can't be
// read leaves the message empty.
func (c *Client) responseError(op string, resp *http.Response) *Error {
	e := &Error{
		Op: op, Method: resp.Request.Method, URL: redact(resp.Request.URL), Status: resp.StatusCode,
		Code: resp.Header.Get("X-Error-Code"), Message: resp.Header.Get("X-Error-Message"),
		RequestID: clip(resp.Header.Get("X-Request-Id"), 80),
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if e.Message == "" {
		e.Message = errorText(body)
	}
	e.Message = clip(c.token.scrub(e.Message), 500)
	e.Code = clip(c.token.scrub(e.Code), 80)
	return e
}

// errorText finds the message in the shapes that the Hub, LFS servers and
// object stores answer with.
func errorText(body []byte) string {
	var v struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Errors  []struct {
			Message string `json:"message"`
		} `json:"errors"`
	}
	if json.Unmarshal(body, &v) != nil {
		return strings.Join(strings.Fields(string(body)), " ")
	}
	var s string
	if json.Unmarshal(v.Error, &s) == nil && s != "" {
		return s
	}
	if len(v.Errors) > 0 {
		return v.Errors[0].Message
	}
	if v.Message != "" {
		return v.Message
	}
	return string(v.Error)
}

// redact drops what may be secret in a URL: the query and user information.
func redact(u *url.URL) string {
	r := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return r.String()
}

// clip shortens a text from outside and makes it printable on one line.
func clip(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	if len(s) > n {
		s = s[:n] + "..."
	}
	return s
}
