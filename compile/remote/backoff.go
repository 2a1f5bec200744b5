package remote

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// backoff counts the failures in a row of one thing. The zero value is ready.
type backoff struct {
	failures int
	few      bool // give up after fewAttempts
}

const (
	// attempts in a row that may fail; with the pauses between them they bridge
	// about eight seconds, such as the restart of a proxy.
	attempts = 6
	maxPause = 5 * time.Second
	// fewAttempts are for the first words with a server: an address that is
	// wrong should be known soon.
	fewAttempts = 3
)

// firstPause is shorter in tests.
var firstPause = 250 * time.Millisecond

// again waits and reports whether another attempt makes sense.
func (b *backoff) again(ctx context.Context, err error) bool {
	b.failures++
	if ctx.Err() != nil || !transient(err) || b.failures >= attempts || b.few && b.failures >= fewAttempts {
		return false
	}
	pause := min(firstPause<<(b.failures-1), maxPause)
	pause += time.Duration(rand.Int64N(int64(pause)/2 + 1)) // so that a crowd does not come back at once
	if asked, ok := retryInfo(err); ok {
		pause = min(asked, 6*maxPause)
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// progress forgets the failures: something was gained since.
func (b *backoff) progress() { b.failures = 0 }

// transient reports whether the same call may succeed later: the server or the
// way to it was busy or gone, or an attempt ran into its own deadline. A call
// whose message is too large stays so.
func transient(err error) bool {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return true // a stream that ended early
	}
	s, ok := status.FromError(err)
	if !ok {
		return false
	}
	switch s.Code() {
	case codes.Unavailable, codes.Aborted, codes.DeadlineExceeded:
		return true
	case codes.ResourceExhausted:
		return !strings.Contains(s.Message(), "message larger than max")
	}
	return false
}

// retryInfo is the pause that a server asks for.
func retryInfo(err error) (time.Duration, bool) {
	for _, d := range status.Convert(err).Details() {
		if r, ok := d.(*errdetails.RetryInfo); ok && r.RetryDelay.CheckValid() == nil {
			return max(0, r.RetryDelay.AsDuration()), true
		}
	}
	return 0, false
}
