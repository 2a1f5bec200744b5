package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Open streams a file at a revision. size is what the tree says; a stream
// that is shorter or longer ends in an error. A connection that breaks is
// taken up again where it broke, so the reader sees every byte once and in
// order. What the bytes hash to is the caller's to check.
//
// rev should be a full commit id: a branch may move between two files.
func (c *Client) Open(ctx context.Context, r Repo, rev, path string, size int64) (io.ReadCloser, error) {
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	return &download{c: c, ctx: ctx, op: fmt.Sprintf("download %s of %s", path, r), rev: rev, size: size,
		path: r.webPath() + "/resolve/" + seg(rev) + "/" + escapePath(path)}, nil
}

// download is a resumable reader over GET requests with Range.
type download struct {
	c        *Client
	ctx      context.Context // of the Open call; the reader is its extension
	op, path string
	rev      string
	size     int64
	off      int64
	tries    int
	waited   time.Duration
	body     io.ReadCloser
	stop     func()
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for d.off < d.size {
		if d.body == nil {
			if err := d.connect(); err != nil {
				return 0, err
			}
		}
		n, err := d.body.Read(p[:min(int64(len(p)), d.size-d.off)])
		d.off += int64(n)
		if n > 0 {
			d.tries = 0 // progress earns patience
		}
		if err != nil && d.off < d.size {
			d.drop()
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			if e := d.again(fmt.Errorf("%s: at byte %d of %d: %w", d.op, d.off, d.size, err), nil); e != nil {
				return n, e
			}
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, d.end()
}

// end returns io.EOF, unless the server goes on sending.
func (d *download) end() error {
	if d.body != nil {
		n, _ := d.body.Read(make([]byte, 1))
		d.drop()
		if n > 0 {
			return fmt.Errorf("%s: the server sends more than the %d bytes that the tree lists", d.op, d.size)
		}
	}
	return io.EOF
}

// Close implements io.Closer.
func (d *download) Close() error {
	d.drop()
	return nil
}

func (d *download) drop() {
	if d.body != nil {
		_ = d.body.Close()
		d.stop()
		d.body = nil
	}
}

// again waits before the next attempt or returns why there is none.
func (d *download) again(err error, h http.Header) error {
	if cause := context.Cause(d.ctx); cause != nil {
		return fmt.Errorf("%s: %w", d.op, cause)
	}
	if d.tries++; d.tries >= d.c.retry.Attempts || isPermanent(err) {
		return err
	}
	wait := d.c.retry.wait(d.tries, h, time.Now())
	if d.waited += wait; d.waited > d.c.retry.MaxTotal {
		return err
	}
	d.c.log("%v; trying again in %v", err, wait.Round(time.Millisecond))
	return sleep(d.ctx, wait)
}

// connect opens the stream at the current offset.
func (d *download) connect() error {
	for {
		h, err := d.try()
		if err == nil {
			return nil
		}
		var status *Error
		if errors.As(err, &status) && !transientStatus(status.Status) {
			return err
		}
		if err := d.again(err, h); err != nil {
			return err
		}
	}
}

func (d *download) try() (http.Header, error) {
	ctx, cancel := context.WithCancelCause(d.ctx)
	idle := d.c.idle
	watch := newWatchdog(idle, func() { cancel(fmt.Errorf("%w for %v", errIdle, idle)) })
	stop := func() { watch.stop(); cancel(nil) }
	k := call{op: d.op, method: http.MethodGet, url: d.c.url(d.path)}
	req, err := http.NewRequestWithContext(context.WithValue(ctx, accessKey{}, access{auth: true, offsite: true}), k.method, k.url.String(), nil)
	if err != nil {
		stop()
		return nil, permanent(err)
	}
	if d.off > 0 {
		req.Header.Set("Range", "bytes="+strconv.FormatInt(d.off, 10)+"-")
	}
	resp, err := d.c.http.Do(req)
	if err != nil {
		err = d.c.sendError(ctx, k, err)
		stop()
		return nil, err
	}
	fail := func(err error) (http.Header, error) {
		_ = resp.Body.Close()
		stop()
		return resp.Header, err
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusPartialContent {
		return fail(d.c.responseError(d.op, resp))
	}
	if err := d.checkAnswer(resp); err != nil {
		return fail(permanent(fmt.Errorf("%s: %w", d.op, err)))
	}
	d.body, d.stop = &watchedBody{resp.Body, watch}, stop
	if d.off > 0 && resp.StatusCode == http.StatusOK {
		// The server ignores ranges: skip what we have.
		if _, err := io.CopyN(io.Discard, d.body, d.off); err != nil {
			d.drop()
			return resp.Header, fmt.Errorf("%s: skip to byte %d: %w", d.op, d.off, err)
		}
	}
	return resp.Header, nil
}

// checkAnswer refuses an answer about another file, commit, size or range.
func (d *download) checkAnswer(resp *http.Response) error {
	start := int64(0)
	if resp.StatusCode == http.StatusPartialContent {
		start = d.off
		if want := "bytes " + strconv.FormatInt(d.off, 10) + "-"; !strings.HasPrefix(resp.Header.Get("Content-Range"), want) {
			return fmt.Errorf("the server sent range %q, expected it to start with %q", clip(resp.Header.Get("Content-Range"), 60), want)
		}
	}
	if resp.ContentLength >= 0 && resp.ContentLength != d.size-start {
		return fmt.Errorf("the server announces %d bytes, the tree says %d", resp.ContentLength, d.size-start)
	}
	if got := resp.Header.Get("X-Repo-Commit"); IsCommit(d.rev) && got != "" && got != d.rev {
		return fmt.Errorf("the server answered with commit %s instead of %s", clip(got, 64), d.rev)
	}
	return nil
}
