package oci

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// steady carries the library's requests to the registry. It mends two things
// that the library leaves open: a body is made anew for every round trip, so
// that what is sent again after a 401 or a broken connection is whole
// (go-containerregistry issue 1004), and failures that pass are waited out, as
// long as the registry asks for. The uploader keeps one kind for itself, a blob
// whose transfer broke, as it first has to ask how much has arrived.
type steady struct {
	base http.RoundTripper
	// base wait and the cap on all waiting of one request.
	wait, maxWait time.Duration
	sent          *atomic.Int64
	log           func(string, ...any)
}

// attempts is how often one request is sent.
const attempts = 8

// RoundTrip implements http.RoundTripper.
func (s *steady) RoundTrip(in *http.Request) (*http.Response, error) {
	var waited time.Duration
	repeatable := in.Body == nil || in.Body == http.NoBody || in.GetBody != nil
	for n := 1; ; n++ {
		req, err := s.fresh(in)
		if err != nil {
			return nil, err
		}
		resp, err := s.base.RoundTrip(req)
		if err == nil && in.Method == http.MethodGet {
			err = s.steadyBody(in, resp)
		}
		if n >= attempts || !repeatable || !passing(in, resp, err) {
			return resp, err
		}
		d, told := time.Duration(0), false
		if resp != nil {
			d, told = retryAfter(resp.Header)
		}
		if !told {
			d = s.wait << min(n-1, 6)
			d = d/2 + rand.N(d/2+1)
		}
		if waited += d; waited > s.maxWait {
			return resp, err // too long; the caller reports what it was
		}
		why := fmt.Sprint(err)
		if resp != nil {
			why = resp.Status
			_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
			_ = resp.Body.Close()
		}
		s.log("%s %s: %s; trying again in %v", in.Method, in.URL.Host+in.URL.Path, why, d.Round(time.Millisecond))
		if err := pause(in.Context(), d); err != nil {
			return nil, err
		}
	}
}

// maxDocument is the largest manifest or list that is read at once.
const maxDocument = 8 << 20

// steadyBody keeps an answer's body from ending early: a document is read now,
// so that a cut is a failure of the request, and a blob goes on by a request
// for the rest.
func (s *steady) steadyBody(in *http.Request, resp *http.Response) error {
	switch {
	case strings.Contains(in.URL.Path, "/manifests/") || strings.Contains(in.URL.Path, "/referrers/"):
		defer resp.Body.Close()
		b, err := readAllLimited(resp.Body, maxDocument)
		resp.Body = io.NopCloser(bytes.NewReader(b))
		return err
	case resp.StatusCode == http.StatusOK && resp.ContentLength > 0:
		resp.Body = &longBody{s: s, in: in, body: resp.Body, size: resp.ContentLength}
	}
	return nil
}

// longBody reads a blob and asks for the rest of it when the connection breaks.
// Its reader checks the digest of the whole.
type longBody struct {
	s    *steady
	in   *http.Request
	body io.ReadCloser
	n    int64
	size int64
	fail int
}

// Read implements io.Reader.
func (b *longBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	b.n += int64(n)
	if n > 0 {
		b.fail = 0
	}
	if err == nil || b.n >= b.size || b.in.Context().Err() != nil || !retryable(err) {
		return n, err
	}
	if b.fail++; b.fail > attempts {
		return n, err
	}
	b.s.log("%s: %v; asking for the rest from byte %d on", b.in.URL.Host+b.in.URL.Path, err, b.n)
	if perr := pause(b.in.Context(), b.s.wait); perr != nil {
		return n, perr
	}
	req := b.in.Clone(b.in.Context())
	req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", b.n, b.size-1))
	resp, rerr := b.s.RoundTrip(req)
	if rerr != nil {
		return n, err
	}
	_ = b.body.Close()
	b.body = resp.Body
	if resp.StatusCode == http.StatusOK { // the whole, from a server that knows no ranges
		_, rerr = io.CopyN(io.Discard, resp.Body, b.n)
	} else if resp.StatusCode != http.StatusPartialContent {
		rerr = fmt.Errorf("%w, and the rest cannot be had: %s", err, resp.Status)
	}
	return n, rerr
}

// Close implements io.Closer.
func (b *longBody) Close() error { return b.body.Close() }

// sends reports a request whose body the registry may have kept a part of, so
// that only the uploader knows how to go on.
func sends(in *http.Request) bool {
	return in.Method == http.MethodPatch || in.Method == http.MethodPut && in.ContentLength > 0 && strings.Contains(in.URL.Path, "/blobs/uploads/")
}

// passing reports a failure that may go away by itself and that sending the
// same request again may meet.
func passing(in *http.Request, resp *http.Response, err error) bool {
	if in.Context().Err() != nil {
		return false
	}
	if err != nil {
		return !sends(in) && retryable(err)
	}
	if resp.StatusCode == http.StatusTooManyRequests {
		return true // refused before it was looked at, so any can be repeated
	}
	return !sends(in) && transient(resp.StatusCode)
}

func transient(code int) bool {
	switch code {
	case 408, 429, 499, 500, 502, 503, 504, 522:
		return true
	}
	return false
}

// fresh clones the request with a body from its start.
func (s *steady) fresh(in *http.Request) (*http.Request, error) {
	req := in.Clone(in.Context())
	if in.Body == nil || in.Body == http.NoBody {
		return req, nil
	}
	body := in.Body
	if in.GetBody != nil {
		var err error
		if body, err = in.GetBody(); err != nil {
			return nil, fmt.Errorf("send the body again: %w", err)
		}
		_ = in.Body.Close()
	}
	req.Body = &countedBody{body, s.sent}
	return req, nil
}

type countedBody struct {
	io.ReadCloser
	n *atomic.Int64
}

// Read implements io.Reader.
func (c *countedBody) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}

func retryAfter(h http.Header) (time.Duration, bool) {
	v := h.Get("Retry-After")
	if n, err := strconv.Atoi(v); err == nil && n >= 0 {
		return time.Duration(min(n, 1<<20)) * time.Second, true
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(time.Until(t), 0) + time.Second, true
	}
	return 0, false
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
