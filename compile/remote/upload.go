package remote

import (
	"context"
	"fmt"
	"io"
	"sync"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"golang.org/x/sync/errgroup"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// blob is content that the cluster has to have, and where to get it from.
type blob struct {
	digest action.Digest
	open   func() (io.ReadCloser, error)
}

// check reads the blob and compares it with its digest.
func (b blob) check() error {
	r, err := b.open()
	if err != nil {
		return err
	}
	defer r.Close()
	got, err := action.Copy(io.Discard, r)
	if err == nil && got != b.digest {
		err = action.ErrChanged
	}
	return err
}

// read returns the whole blob.
func (b blob) read() ([]byte, error) {
	r, err := b.open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, b.digest.Size+1))
	if err == nil && action.DigestOf(data) != b.digest {
		err = action.ErrChanged
	}
	return data, err
}

// sent remembers what the cluster has, so that thousands of files of a tool are
// asked about once, and a blob that several actions need is sent once.
type sent struct {
	mu    sync.Mutex
	known map[action.Digest]*flight // guarded by mu
}

// flight is a blob on its way, or there when done is closed and err nil.
type flight struct {
	done chan struct{}
	err  error // set before done is closed
}

// claim returns the blobs that the caller has to bring there, and the flights of
// others that it has to wait for.
func (s *sent) claim(blobs []blob) (mine []blob, theirs []*flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range blobs {
		f := s.known[b.digest]
		if f == nil {
			s.known[b.digest] = &flight{done: make(chan struct{})}
			mine = append(mine, b)
			continue
		}
		select {
		case <-f.done: // only good ones stay in the map
		default:
			theirs = append(theirs, f)
		}
	}
	return mine, theirs
}

// settle ends the flights of claimed blobs.
func (s *sent) settle(mine []blob, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range mine {
		f := s.known[b.digest]
		f.err = err
		if err != nil {
			delete(s.known, b.digest)
		}
		close(f.done)
	}
}

// forget asks the cluster about everything again: it has lost something.
func (s *sent) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for d, f := range s.known {
		select {
		case <-f.done:
			delete(s.known, d)
		default:
		}
	}
}

// upload makes sure that the cluster has all blobs.
func (c *client) upload(ctx context.Context, blobs []blob) error {
	for {
		mine, theirs := c.sent.claim(blobs)
		if len(mine) > 0 {
			err := c.send(ctx, mine)
			c.sent.settle(mine, err)
			if err != nil {
				return err
			}
		}
		again := false
		for _, f := range theirs {
			select {
			case <-f.done:
				again = again || f.err != nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if !again {
			return nil
		}
	}
}

const (
	maxDigests = 8 << 10 // in one FindMissingBlobs: 0.6 MB
	streams    = 4       // messages or streams of blobs at once
	perBlob    = 128     // bytes that a blob takes in a message beside its content
	// talkAbout is how many bytes are worth a line to the person.
	talkAbout = 16 << 20
)

// send sends those of the blobs that are missing.
func (c *client) send(ctx context.Context, blobs []blob) error {
	lacking, err := c.missing(ctx, blobs)
	if err != nil {
		return err
	}
	var total int64
	for _, b := range lacking {
		total += b.digest.Size
	}
	if total >= talkAbout && c.config.Log != nil {
		c.config.Log("sending %d files, %.0f MB, to %s", len(lacking), float64(total)/1e6, c.config.URL)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(streams)
	var batch []blob
	var size int64
	flush := func() {
		if some := batch; len(some) > 0 {
			group.Go(func() error { return c.sendBatch(ctx, some) })
		}
		batch, size = nil, 0
	}
	for _, b := range lacking {
		n := b.digest.Size + perBlob
		if n > c.batch {
			group.Go(func() error { return c.write(ctx, b) })
			continue
		}
		if size+n > c.batch {
			flush()
		}
		batch, size = append(batch, b), size+n
	}
	flush()
	return group.Wait()
}

// missing asks which blobs the cluster lacks.
func (c *client) missing(ctx context.Context, blobs []blob) ([]blob, error) {
	var out []blob
	for len(blobs) > 0 {
		part := blobs[:min(len(blobs), maxDigests)]
		blobs = blobs[len(part):]
		req := &repb.FindMissingBlobsRequest{InstanceName: c.config.Instance}
		for _, b := range part {
			req.BlobDigests = append(req.BlobDigests, b.digest.Proto())
		}
		var resp *repb.FindMissingBlobsResponse
		err := c.retry(ctx, "ask which files it lacks", func(ctx context.Context) (err error) {
			resp, err = c.cas.FindMissingBlobs(ctx, req)
			return err
		})
		if err != nil {
			return nil, err
		}
		lacks := map[action.Digest]bool{}
		for _, d := range resp.MissingBlobDigests {
			dg, err := action.FromProto(d)
			if err != nil {
				return nil, c.failure(ctx, "ask which files it lacks", err)
			}
			lacks[dg] = true
		}
		for _, b := range part {
			if lacks[b.digest] {
				out = append(out, b)
			}
		}
	}
	return out, nil
}

// sendBatch sends small blobs in one message, and again those that the server
// could not take just then.
func (c *client) sendBatch(ctx context.Context, blobs []blob) error {
	left := map[action.Digest][]byte{}
	for _, b := range blobs {
		data, err := b.read()
		if err != nil {
			return err
		}
		left[b.digest] = data
	}
	const op = "send files"
	var b backoff
	for {
		req := &repb.BatchUpdateBlobsRequest{InstanceName: c.config.Instance}
		for d, data := range left {
			req.Requests = append(req.Requests, &repb.BatchUpdateBlobsRequest_Request{Digest: d.Proto(), Data: data})
		}
		one, cancel := context.WithTimeout(c.with(ctx), callTime)
		resp, err := c.cas.BatchUpdateBlobs(one, req)
		cancel()
		if err == nil {
			before := len(left)
			if err = accepted(left, resp); err == nil {
				return nil
			}
			if len(left) < before {
				b.progress()
			}
		}
		if !b.again(ctx, err) {
			return c.failure(ctx, op, err)
		}
	}
}

// accepted takes out of left what the server has taken, and returns the first
// reason why something is left, one for good before one that may pass.
func accepted(left map[action.Digest][]byte, resp *repb.BatchUpdateBlobsResponse) error {
	var reason error
	for _, r := range resp.Responses {
		d, err := action.FromProto(r.Digest)
		if err != nil {
			return err
		}
		switch err := statusError(r.Status); {
		case err == nil || status.Code(err) == codes.AlreadyExists:
			delete(left, d)
		case reason == nil || transient(reason) && !transient(err):
			reason = fmt.Errorf("file %s: %w", d.Short(), err)
		}
	}
	if reason == nil && len(left) > 0 {
		return status.Errorf(codes.Aborted, "the server did not answer for %d of the files", len(left))
	}
	return reason
}

// statusError is the error of a status inside a message, nil for OK.
func statusError(s *spb.Status) error { return status.FromProto(s).Err() }
