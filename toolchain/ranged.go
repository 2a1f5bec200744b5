package toolchain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// errNoRanges says that a server, or a proxy in front of it, sends whole files
// where a range was asked for.
var errNoRanges = errors.New("the server ignores Range requests")

// rangeReader is a remote file as an io.ReaderAt. What was fetched once stays
// in memory, so it is for the few megabytes of a large file that are wanted.
// ReadAt may be called from several goroutines.
type rangeReader struct {
	ctx    context.Context
	client *http.Client
	url    string
	size   int64
	report Progress
	label  string

	mu       sync.Mutex // held while a request is made, so that no range is fetched twice
	segments []segment
	Requests int
	Bytes    int64
}

type segment struct {
	off  int64
	data []byte
}

// openRange reads the file's last tail bytes, which also tells its size.
func openRange(ctx context.Context, client *http.Client, d Dist, tail int64, report Progress) (*rangeReader, error) {
	r := &rangeReader{ctx: ctx, client: client, url: d.URL, report: report, label: d.File}
	data, off, size, err := r.get(fmt.Sprintf("bytes=-%d", tail))
	if err != nil {
		return nil, err
	}
	if d.Size > 0 && size != d.Size {
		return nil, fmt.Errorf("%s has %d bytes, the index says %d", d.File, size, d.Size)
	}
	r.size = size
	r.segments = []segment{{off, data}}
	return r, nil
}

// ReadAt implements io.ReaderAt.
func (r *rangeReader) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 || off >= r.size {
		return 0, io.EOF
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	want := min(int64(len(b)), r.size-off)
	have, ok := r.find(off, want)
	if !ok {
		const step = 64 << 10
		if err := r.fetch(off, off+max(want, step)); err != nil {
			return 0, err
		}
		if have, ok = r.find(off, want); !ok {
			return 0, fmt.Errorf("bytes %d to %d did not come", off, off+want-1)
		}
	}
	if n := copy(b, have); n < len(b) {
		return n, io.EOF
	}
	return len(b), nil
}

// find returns n bytes from off where they are here already.
func (r *rangeReader) find(off, n int64) ([]byte, bool) {
	for _, s := range r.segments {
		if off >= s.off && off+n <= s.off+int64(len(s.data)) {
			return s.data[off-s.off:][:n], true
		}
	}
	return nil, false
}

// Prefetch makes [from, to) available in one request. Bounds outside the file
// are moved to its ends.
func (r *rangeReader) Prefetch(from, to int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fetch(from, to)
}

func (r *rangeReader) fetch(from, to int64) error {
	from, to = max(from, 0), min(to, r.size)
	data, off, _, err := r.get(fmt.Sprintf("bytes=%d-%d", from, to-1))
	if err != nil {
		return err
	}
	if off != from || int64(len(data)) != to-from {
		return fmt.Errorf("asked for bytes %d to %d and got %d bytes from %d", from, to-1, len(data), off)
	}
	r.segments = append(r.segments, segment{from, data})
	return nil
}

func (r *rangeReader) get(spec string) (data []byte, off, size int64, err error) {
	err = retry(r.ctx, func() error {
		req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, r.url, nil)
		if err != nil {
			return permanent{err}
		}
		req.Header.Set("Range", spec)
		req.Header.Set("Accept-Encoding", "identity")
		res, err := r.client.Do(req)
		if err != nil {
			return cleanURLError(err)
		}
		defer res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return permanent{errNoRanges}
		}
		if err := checkStatus(res, http.StatusPartialContent); err != nil {
			return err
		}
		var end int64
		if off, end, size, err = parseContentRange(res.Header.Get("Content-Range")); err != nil {
			return permanent{err}
		}
		r.Requests++
		body := &counting{r: res.Body, report: r.report, label: r.label, done: r.Bytes}
		// What the server claims bounds no memory: the buffer grows from there.
		b := bytes.NewBuffer(make([]byte, 0, min(end-off+1, 16<<20)+bytes.MinRead))
		_, err = b.ReadFrom(io.LimitReader(body, end-off+1))
		data = b.Bytes()
		r.Bytes += int64(len(data))
		if err != nil {
			return err
		}
		if int64(len(data)) != end-off+1 {
			return fmt.Errorf("the transfer ended after %d of %d bytes", len(data), end-off+1)
		}
		return nil
	})
	return data, off, size, err
}

// parseContentRange reads "bytes FIRST-LAST/SIZE" (RFC 9110, 14.4).
func parseContentRange(s string) (first, last, size int64, err error) {
	rest, ok := strings.CutPrefix(s, "bytes ")
	span, total, ok2 := strings.Cut(rest, "/")
	a, b, ok3 := strings.Cut(span, "-")
	if !ok || !ok2 || !ok3 {
		return 0, 0, 0, fmt.Errorf("unreadable Content-Range %q", s)
	}
	var errs [3]error
	first, errs[0] = strconv.ParseInt(a, 10, 64)
	last, errs[1] = strconv.ParseInt(b, 10, 64)
	size, errs[2] = strconv.ParseInt(total, 10, 64)
	if err := errors.Join(errs[:]...); err != nil || first < 0 || last < first || size <= last {
		return 0, 0, 0, fmt.Errorf("unreadable Content-Range %q", s)
	}
	return first, last, size, nil
}
