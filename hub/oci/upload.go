package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/sync/singleflight"
)

// blob is what an upload reads, in parts and again if it must.
type blob struct {
	digest v1.Hash
	size   int64
	open   func() (readAtCloser, error)
}

type readAtCloser interface {
	io.ReaderAt
	io.Closer
}

type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

func bytesBlob(b []byte) (blob, error) {
	h, n, err := v1.SHA256(bytes.NewReader(b))
	return blob{h, n, func() (readAtCloser, error) { return memory{bytes.NewReader(b)}, nil }}, err
}

func (l *fileLayer) blob() blob {
	return blob{l.digest, l.size, func() (readAtCloser, error) { return os.Open(l.path) }}
}

// uploader sends blobs to one repository.
type uploader struct {
	http  *http.Client
	repo  name.Repository
	wait  time.Duration
	chunk int64
	log   func(string, ...any)
	// known are the blobs that the repository was seen to hold; flight keeps
	// two variants from sending the same blob at once.
	known  sync.Map
	flight singleflight.Group
	// whole says that the registry does not resume, so that chunks are no use.
	whole atomic.Bool
}

// connect logs in to the registry, once for all that follows, with the right
// to read the repositories in from too.
func connect(ctx context.Context, a Access, base http.RoundTripper, repo name.Repository, from ...name.Repository) (*uploader, http.RoundTripper, error) {
	auth, err := authn.Resolve(ctx, a.Keychain, repo)
	if err != nil {
		return nil, nil, err
	}
	scopes := []string{repo.Scope(transport.PushScope)}
	for _, r := range from {
		scopes = append(scopes, r.Scope(transport.PullScope))
	}
	rt, err := transport.NewWithContext(ctx, repo.Registry, auth, transport.NewUserAgent(base, "thoxbuild"), scopes)
	if err != nil {
		return nil, nil, err
	}
	return &uploader{http: &http.Client{Transport: rt, CheckRedirect: redirects}, repo: repo, wait: a.Wait, chunk: a.Chunk, log: a.Log}, rt, nil
}

// redirects keeps a redirect from leading an upload elsewhere, and questions
// too if it is to a plainer scheme; a blob may be on another host, which gets
// no credentials.
func redirects(req *http.Request, via []*http.Request) error {
	from := via[0]
	reads := from.Method == http.MethodHead || from.Method == http.MethodGet
	if len(via) > 5 || req.URL.Host != from.URL.Host && !reads || req.URL.Scheme != from.URL.Scheme && req.URL.Scheme != "https" {
		return fmt.Errorf("refused a redirect of %s to %s://%s", from.Method, req.URL.Scheme, req.URL.Host)
	}
	return nil
}

// small blobs cost as much to ask for as to send, so they are sent.
const small = 16 << 10

// uploads is how often one blob is begun anew.
const uploads = 8

// upload brings a blob to the repository, unless it is there, and by a mount
// if from has it. A session that went wrong in a way that is not known is given
// up: the registry checks the whole by its digest.
func (u *uploader) upload(ctx context.Context, b blob, from string) error {
	_, err, _ := u.flight.Do(b.digest.String(), func() (any, error) { return nil, u.bring(ctx, b, from) })
	return err
}

func (u *uploader) bring(ctx context.Context, b blob, from string) error {
	if _, ok := u.known.Load(b.digest); ok {
		return nil
	}
	for n := 1; ; n++ {
		var there bool
		var err error
		if b.size > small || n > 1 {
			there, err = u.has(ctx, b.digest)
		}
		if err == nil && !there {
			err = u.try(ctx, b, from)
		}
		if err == nil {
			u.known.Store(b.digest, true)
			return nil
		}
		if ctx.Err() != nil || !retryable(err) || n >= uploads {
			return err
		}
		u.log("%v; sending %s again", err, b.digest)
		if err := pause(ctx, u.wait<<min(n-1, 6)); err != nil {
			return err
		}
	}
}

func (u *uploader) try(ctx context.Context, b blob, from string) error {
	q := url.Values{}
	if from != "" {
		q.Set("mount", b.digest.String())
		q.Set("from", from)
	}
	resp, err := u.do(ctx, http.MethodPost, u.url("/blobs/uploads/", q), nil, nil, http.StatusAccepted, http.StatusCreated)
	if err != nil || resp.StatusCode == http.StatusCreated {
		return err
	}
	at, err := u.next(resp)
	if err != nil {
		return err
	}
	var body *section
	if b.size > u.chunk && !u.whole.Load() {
		if at, err = u.chunks(ctx, at, b); err != nil {
			return err
		}
	} else if body, err = newSection(b, 0, b.size); err != nil {
		return err
	}
	q = at.Query()
	q.Set("digest", b.digest.String())
	at.RawQuery = q.Encode()
	_, err = u.do(ctx, http.MethodPut, at, body, nil, http.StatusCreated, http.StatusNoContent)
	return err
}

// chunks sends a blob in pieces and returns where the upload ends. After a
// failure it asks how much has arrived and goes on from there.
func (u *uploader) chunks(ctx context.Context, at *url.URL, b blob) (*url.URL, error) {
	failures := 0
	for off := int64(0); off < b.size; {
		n := min(u.chunk, b.size-off)
		body, err := newSection(b, off, n)
		if err != nil {
			return nil, err
		}
		resp, err := u.do(ctx, http.MethodPatch, at, body, http.Header{"Content-Range": {fmt.Sprintf("%d-%d", off, off+n-1)}}, http.StatusAccepted, http.StatusNoContent)
		if err == nil {
			if off += n; resp.Header.Get("Location") != "" {
				at, err = u.next(resp)
			}
			if err != nil {
				return nil, err
			}
			continue
		}
		if failures++; ctx.Err() != nil || !retryable(err) || failures >= uploads {
			return nil, err
		}
		u.log("%v; asking how much of %s has arrived", err, b.digest)
		if err := pause(ctx, u.wait); err != nil {
			return nil, err
		}
		if resp, err = u.do(ctx, http.MethodGet, at, nil, nil, http.StatusNoContent, http.StatusOK); err != nil {
			var te *transport.Error
			if errors.As(err, &te) && te.StatusCode/100 == 4 && te.StatusCode != http.StatusUnauthorized && te.StatusCode != http.StatusForbidden {
				u.whole.Store(!slices.ContainsFunc(te.Errors, func(d transport.Diagnostic) bool { return d.Code == transport.BlobUploadUnknownErrorCode }))
				err = fmt.Errorf("the upload cannot be resumed (%v): %w", err, io.ErrUnexpectedEOF) // by this registry, or not any more
			}
			return nil, err
		}
		have, ok := received(resp.Header.Get("Range"))
		if !ok || have > b.size || have < off-n {
			return nil, fmt.Errorf("the registry says it has %q of an upload of which %d bytes were sent: %w", resp.Header.Get("Range"), off+n, io.ErrUnexpectedEOF)
		}
		off = have
		if resp.Header.Get("Location") != "" {
			if at, err = u.next(resp); err != nil {
				return nil, err
			}
		}
	}
	return at, nil
}

// received reads the Range of an upload's status, 0-LAST. Nothing received is
// told as 0-0, so a single byte is sent again.
func received(s string) (int64, bool) {
	last, ok := strings.CutPrefix(strings.TrimPrefix(s, "bytes="), "0-")
	n, err := strconv.ParseInt(last, 10, 64)
	if !ok || err != nil || n < -1 {
		return 0, false
	}
	if n <= 0 {
		return 0, true
	}
	return n + 1, true
}

// has asks whether the repository holds a blob.
func (u *uploader) has(ctx context.Context, h v1.Hash) (bool, error) {
	_, err := u.do(ctx, http.MethodHead, u.url("/blobs/"+h.String(), nil), nil, nil, http.StatusOK)
	var te *transport.Error
	if errors.As(err, &te) && te.StatusCode == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}

func (u *uploader) url(path string, q url.Values) *url.URL {
	return &url.URL{Scheme: u.repo.Scheme(), Host: u.repo.RegistryStr(), Path: "/v2/" + u.repo.RepositoryStr() + path, RawQuery: q.Encode()}
}

// next reads where an upload goes on. The place may be another host, which
// gets no credentials, but never a plainer scheme.
func (u *uploader) next(resp *http.Response) (*url.URL, error) {
	loc, err := resp.Location()
	if err != nil {
		return nil, fmt.Errorf("the registry does not say where the upload goes on: %w", err)
	}
	if from := resp.Request.URL; loc.Scheme != from.Scheme && loc.Scheme != "https" || loc.User != nil {
		return nil, fmt.Errorf("refused to go on with an upload at %s://%s, as it began at %s://%s", loc.Scheme, loc.Host, from.Scheme, from.Host)
	}
	return loc, nil
}

// do sends one request; the answer's body is read. Only the given statuses are
// no error.
func (u *uploader) do(ctx context.Context, method string, at *url.URL, body *section, h http.Header, ok ...int) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, at.String(), nil)
	if err != nil {
		return nil, err
	}
	for k, v := range h {
		req.Header[k] = v
	}
	if body != nil {
		defer body.file.Close()
		req.Header.Set("Content-Type", "application/octet-stream")
		req.ContentLength = body.size
		req.GetBody = body.reader
		if req.Body, err = body.reader(); err != nil {
			return nil, err
		}
	} else if method != http.MethodHead && method != http.MethodGet {
		req.Body, req.ContentLength = http.NoBody, 0
	}
	resp, err := u.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if err := transport.CheckError(resp, ok...); err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	return resp, err
}

// section is a part of a blob as a request's body, made anew for each attempt.
type section struct {
	file      readAtCloser
	off, size int64
}

func newSection(b blob, off, size int64) (*section, error) {
	f, err := b.open()
	return &section{f, off, size}, err
}

func (s *section) reader() (io.ReadCloser, error) {
	if s.size == 0 {
		return http.NoBody, nil
	}
	return io.NopCloser(io.NewSectionReader(s.file, s.off, s.size)), nil
}
