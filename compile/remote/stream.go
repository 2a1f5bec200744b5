package remote

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// chunk is how much of a blob a message of a stream holds.
const chunk = 512 << 10

// stallTime is how long a stream may stand still.
var stallTime = 60 * time.Second

// watched is a context that ends when nothing has moved for stallTime.
type watched struct {
	context.Context
	cancel context.CancelFunc
	timer  *time.Timer
}

func watch(ctx context.Context) *watched {
	ctx, cancel := context.WithCancel(ctx)
	return &watched{ctx, cancel, time.AfterFunc(stallTime, cancel)}
}

func (w *watched) moved() { w.timer.Reset(stallTime) }

func (w *watched) stop() {
	w.timer.Stop()
	w.cancel()
}

// reason tells a stall from the end of the caller's context.
func (w *watched) reason(ctx context.Context, err error) error {
	if err != nil && w.Err() != nil && ctx.Err() == nil {
		return status.Errorf(codes.DeadlineExceeded, "nothing moved for %v", stallTime)
	}
	return err
}

// resource is the name of a blob's stream.
func (c *client) resource(rest string) string {
	if c.config.Instance == "" {
		return rest
	}
	return c.config.Instance + "/" + rest
}

// write sends a large blob, and goes on where the server has got to after a
// cut.
func (c *client) write(ctx context.Context, b blob) error {
	op := "send file " + b.digest.Short()
	if err := b.check(); err != nil {
		return err
	}
	var pause backoff
	name, at, restarted := c.uploadName(b.digest), int64(0), false
	for {
		err := c.writeFrom(ctx, b, name, at)
		if err == nil {
			return nil
		}
		if at > 0 && !transient(err) && !restarted && ctx.Err() == nil {
			// A server that can't go on in the middle, whatever it said.
			name, at, restarted = c.uploadName(b.digest), 0, true
			continue
		}
		if !pause.again(ctx, err) {
			return c.failure(ctx, op, err)
		}
		was := at
		if at, err = c.committed(ctx, name, b.digest); err != nil {
			return err
		}
		switch {
		case at == b.digest.Size:
			return nil
		case at > was:
			pause.progress()
		case at == 0:
			name = c.uploadName(b.digest) // the server may still hold a part of the old one
		}
	}
}

// uploadName is the resource name of a new upload.
func (c *client) uploadName(d action.Digest) string {
	var u [16]byte
	rand.Read(u[:])
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80 // a random UUID, RFC 9562
	return c.resource(fmt.Sprintf("uploads/%x-%x-%x-%x-%x/blobs/%s", u[:4], u[4:6], u[6:8], u[8:10], u[10:], d))
}

// committed asks how much of an upload has arrived. A server that does not know
// of it, or does not know the question, has nothing.
func (c *client) committed(ctx context.Context, name string, d action.Digest) (at int64, err error) {
	err = c.retry(ctx, "ask how much of a file has arrived", func(ctx context.Context) error {
		resp, err := c.bytes.QueryWriteStatus(ctx, &bytestream.QueryWriteStatusRequest{ResourceName: name})
		switch status.Code(err) {
		case codes.OK:
			if at = resp.CommittedSize; resp.Complete {
				at = d.Size
			}
			return nil
		case codes.NotFound, codes.Unimplemented:
			return nil
		}
		return err
	})
	if at < 0 || at > d.Size {
		at = 0
	}
	return at, err
}

// writeFrom sends a blob from an offset to its end.
func (c *client) writeFrom(ctx context.Context, b blob, name string, at int64) error {
	r, err := b.open()
	if err != nil {
		return err
	}
	defer r.Close()
	if err := skip(r, at); err != nil {
		return err
	}
	w := watch(c.with(ctx))
	defer w.stop()
	stream, err := c.bytes.Write(w)
	if err != nil {
		return w.reason(ctx, err)
	}
	buf := make([]byte, min(chunk, b.digest.Size))
	for last := false; !last; {
		n, err := io.ReadFull(r, buf[:min(int64(len(buf)), b.digest.Size-at)])
		if err != nil {
			return action.ErrChanged // it was whole when it was checked
		}
		last = at+int64(n) == b.digest.Size
		err = stream.Send(&bytestream.WriteRequest{ResourceName: name, WriteOffset: at, Data: buf[:n], FinishWrite: last})
		if errors.Is(err, io.EOF) {
			break // the server has ended it; the answer says why
		}
		if err != nil {
			return w.reason(ctx, err)
		}
		at += int64(n)
		w.moved()
	}
	resp, err := stream.CloseAndRecv()
	switch {
	case status.Code(err) == codes.AlreadyExists:
		return nil
	case err != nil:
		return w.reason(ctx, err)
	case resp.CommittedSize != b.digest.Size: // a blob that is there already is answered at once, with its size
		return status.Errorf(codes.Aborted, "%d of %d bytes were taken", resp.CommittedSize, b.digest.Size)
	}
	return nil
}

// skip moves a reader forward.
func skip(r io.Reader, n int64) error {
	if n == 0 {
		return nil
	}
	if s, ok := r.(io.Seeker); ok {
		_, err := s.Seek(n, io.SeekStart)
		return err
	}
	_, err := io.CopyN(io.Discard, r, n)
	return err
}

// errMismatch is a server that sends other bytes than it was asked for.
var errMismatch = errors.New("the server sent other bytes than those of the digest")

// reader reads a blob, opens the stream again where it was cut, and fails
// instead of io.EOF when the bytes are not those of the digest.
type reader struct {
	c      *client
	ctx    context.Context
	digest action.Digest
	hash   hash.Hash
	at     int64  // how much was received
	rest   []byte // received and not read yet
	stream bytestream.ByteStream_ReadClient
	watch  *watched
	pause  backoff
}

func (c *client) reader(ctx context.Context, d action.Digest) *reader {
	return &reader{c: c, ctx: ctx, digest: d, hash: sha256.New()}
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.at == r.digest.Size {
			r.Close()
			if [sha256.Size]byte(r.hash.Sum(nil)) != r.digest.Hash {
				return 0, errMismatch
			}
			return 0, io.EOF
		}
		data, err := r.receive()
		if err != nil {
			err = r.watch.reason(r.ctx, err)
			r.Close()
			if !r.pause.again(r.ctx, err) {
				return 0, err
			}
			continue
		}
		if r.at += int64(len(data)); r.at > r.digest.Size {
			r.Close()
			return 0, errMismatch
		}
		r.hash.Write(data)
		r.rest = data
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// receive returns the next bytes of the stream, which it opens if need be.
func (r *reader) receive() ([]byte, error) {
	if r.stream == nil {
		r.watch = watch(r.c.with(r.ctx))
		var err error
		r.stream, err = r.c.bytes.Read(r.watch, &bytestream.ReadRequest{
			ResourceName: r.c.resource("blobs/" + r.digest.String()), ReadOffset: r.at,
		})
		if err != nil {
			return nil, err
		}
	}
	resp, err := r.stream.Recv()
	if errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF // there are bytes to come
	}
	if err != nil {
		return nil, err
	}
	r.watch.moved()
	if len(resp.Data) > 0 {
		r.pause.progress()
	}
	return resp.Data, nil
}

// Close ends the stream.
func (r *reader) Close() error {
	if r.watch != nil {
		r.watch.stop()
	}
	r.stream = nil
	return nil
}
