package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// lostError is a blob that a result names and the cluster no longer has.
type lostError struct{ digest action.Digest }

func (e *lostError) Error() string {
	return fmt.Sprintf("file %s is gone from the server", e.digest.Short())
}

// fetch puts blobs into a sink: small ones together, large ones by streams.
func (c *client) fetch(ctx context.Context, digests []action.Digest, out action.Sink) error {
	var small []action.Digest
	var size int64
	flush := func() error {
		err := c.fetchBatch(ctx, small, out)
		small, size = nil, 0
		return err
	}
	for _, d := range digests {
		n := d.Size + perBlob
		if n > c.batch {
			if err := c.fetchOne(ctx, d, out); err != nil {
				return err
			}
			continue
		}
		if size+n > c.batch {
			if err := flush(); err != nil {
				return err
			}
		}
		small, size = append(small, d), size+n
	}
	return flush()
}

// fetchBatch gets small blobs in one message. What comes damaged or not at all
// is asked for alone.
func (c *client) fetchBatch(ctx context.Context, digests []action.Digest, out action.Sink) error {
	if len(digests) == 0 {
		return nil
	}
	req := &repb.BatchReadBlobsRequest{InstanceName: c.config.Instance}
	for _, d := range digests {
		req.Digests = append(req.Digests, d.Proto())
	}
	var resp *repb.BatchReadBlobsResponse
	err := c.retry(ctx, "fetch files", func(ctx context.Context) (err error) {
		resp, err = c.cas.BatchReadBlobs(ctx, req)
		return err
	})
	if err != nil && status.Code(err) != codes.Unimplemented {
		return err
	}
	good := map[action.Digest][]byte{}
	for _, r := range resp.GetResponses() {
		d, err := action.FromProto(r.Digest)
		if err == nil && statusError(r.Status) == nil && action.DigestOf(r.Data) == d {
			good[d] = r.Data
		}
	}
	for _, d := range digests {
		data, ok := good[d]
		if !ok {
			err = c.fetchOne(ctx, d, out)
		} else {
			err = out.Put(ctx, d, bytes.NewReader(data))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fetchOne gets a blob by a stream; when it arrives damaged, once more.
func (c *client) fetchOne(ctx context.Context, d action.Digest, out action.Sink) error {
	var err error
	for range 2 {
		r := c.reader(ctx, d)
		err = out.Put(ctx, d, r)
		r.Close()
		if !errors.Is(err, errMismatch) {
			break
		}
	}
	if status.Code(err) == codes.NotFound {
		return &lostError{d}
	}
	if _, isStatus := status.FromError(err); isStatus || errors.Is(err, errMismatch) {
		return c.failure(ctx, "fetch file "+d.Short(), err)
	}
	return err // the sink's own
}

// text returns the beginning of a blob, at most max bytes, and how many were
// left out. A text that is cut can't be checked against its digest; it is for
// people to read.
func (c *client) text(ctx context.Context, d action.Digest, max int64) (b []byte, left int64, err error) {
	r := c.reader(ctx, d)
	defer r.Close()
	b, err = io.ReadAll(io.LimitReader(r, max))
	if err == nil && d.Size <= max {
		_, err = r.Read(nil) // the check at the end
		if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		return b, 0, c.failure(ctx, "fetch what the command printed", err)
	}
	return b, d.Size - int64(len(b)), nil
}
