package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

// call is one request with everything that repeating it needs.
type call struct {
	op          string
	method      string
	url         *url.URL
	contentType string
	header      http.Header
	body        *body
	auth        bool
	offsite     bool
	// retry lets the call be repeated after any transient failure. Without
	// it the call is sent once.
	retry bool
	// patience multiplies the idle time, for calls that a server works on.
	patience int
	// result receives the JSON answer; read sees the response instead. Both
	// are part of the attempt: an answer that is cut is a failed attempt.
	result any
	read   func(*http.Response) error
}

// body makes the request's body anew for each attempt.
type body struct {
	size int64
	open func() (io.ReadCloser, error)
}

func bytesBody(b []byte) *body {
	return &body{int64(len(b)), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }}
}

// maxJSON bounds a JSON answer: a page of 1,000 tree entries is under 1 MB.
const maxJSON = 64 << 20

// do sends a call until it succeeds, may not be repeated, or the patience is
// used up.
func (c *Client) do(ctx context.Context, k call) error {
	var waited time.Duration
	for n := 1; ; n++ {
		h, err := c.attempt(ctx, k)
		if err == nil {
			return nil
		}
		// First, because the cause may hold an *Error of a sibling call.
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("%s: %w", k.op, cause)
		}
		var status *Error
		if errors.As(err, &status) {
			status.Attempts = n
		}
		transient := !isPermanent(err) && (status == nil || transientStatus(status.Status))
		if !k.retry || !transient || n >= c.retry.Attempts {
			return err
		}
		d := c.retry.wait(n, h, time.Now())
		if waited += d; waited > c.retry.MaxTotal {
			return fmt.Errorf("%w; the server asks to wait longer than %v in all", err, c.retry.MaxTotal)
		}
		c.log("%v; trying again in %v", err, d.Round(time.Millisecond))
		if err := sleep(ctx, d); err != nil {
			return fmt.Errorf("%s: %w", k.op, err)
		}
	}
}

// errIdle is the cause of an attempt that was given up.
var errIdle = errors.New("no data moved")

// attempt sends the call once and reads its answer to the end. The header is
// the answer's, if one came.
func (c *Client) attempt(ctx context.Context, k call) (http.Header, error) {
	idle := c.idle * time.Duration(max(k.patience, 1))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := newWatchdog(idle, func() { cancel(fmt.Errorf("%w for %v", errIdle, idle)) })
	defer watch.stop()
	ctx = context.WithValue(ctx, accessKey{}, access{auth: k.auth, offsite: k.offsite})

	req := (&http.Request{Method: k.method, URL: k.url, Header: http.Header{}, Host: k.url.Host}).WithContext(ctx)
	for name, v := range k.header {
		req.Header[name] = v
	}
	if k.contentType != "" {
		req.Header.Set("Content-Type", k.contentType)
	}
	if k.body != nil {
		// GetBody serves the transport's own repetition on a dead idle
		// connection, and redirects that keep the method.
		req.GetBody = func() (io.ReadCloser, error) {
			b, err := k.body.open()
			if err != nil {
				return nil, permanent(err)
			}
			return &watchedBody{b, watch}, nil
		}
		b, err := req.GetBody()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.op, err)
		}
		req.Body, req.ContentLength = b, k.body.size
		if k.body.size == 0 {
			_ = b.Close()
			req.Body = http.NoBody
		}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.sendError(ctx, k, err)
	}
	defer resp.Body.Close()
	resp.Body = &watchedBody{resp.Body, watch}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return resp.Header, c.responseError(k.op, resp)
	}
	if err := k.consume(resp); err != nil {
		return resp.Header, c.sendError(ctx, k, err)
	}
	return resp.Header, nil
}

// consume reads a good answer to its end, so that a cut is noticed and the
// connection can be used again.
func (k call) consume(resp *http.Response) error {
	if k.read != nil {
		return k.read(resp)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxJSON+1))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if len(b) > maxJSON {
		return permanent(fmt.Errorf("the answer is larger than %d MB", maxJSON>>20))
	}
	if k.result == nil {
		return nil
	}
	if err := json.Unmarshal(b, k.result); err != nil {
		return fmt.Errorf("the answer is not what the Hub sends: %w", err)
	}
	return nil
}

// sendError names the request in a failure below HTTP, without the secrets
// that net/http would print.
func (c *Client) sendError(ctx context.Context, k call, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if cause := context.Cause(ctx); cause != nil && (errors.Is(err, context.Canceled) || errors.Is(cause, errIdle)) {
		err = cause
	}
	var own *Error
	if errors.As(err, &own) {
		return err
	}
	return fmt.Errorf("%s: %s %s: %w", k.op, k.method, redact(k.url), err)
}

// watchdog calls give up when touch was not called for a while.
type watchdog struct {
	last atomic.Int64
	idle time.Duration
	t    *time.Timer
	done atomic.Bool
}

func newWatchdog(idle time.Duration, giveUp func()) *watchdog {
	w := &watchdog{idle: idle}
	w.touch()
	ready := make(chan struct{})
	w.t = time.AfterFunc(idle, func() {
		<-ready
		if w.done.Load() {
			return
		}
		if left := idle - time.Since(time.Unix(0, w.last.Load())); left > 0 {
			w.t.Reset(left)
			return
		}
		giveUp()
	})
	close(ready)
	return w
}

// touch is called for every read, so it costs one atomic store.
func (w *watchdog) touch() { w.last.Store(time.Now().UnixNano()) }

func (w *watchdog) stop() {
	w.done.Store(true)
	w.t.Stop()
}

// watchedBody tells the watchdog that data moves.
type watchedBody struct {
	io.ReadCloser
	w *watchdog
}

// Read implements io.Reader.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.w.touch()
	return n, err
}
