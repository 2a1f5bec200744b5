package oci

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Access says how to reach a registry. The zero value uses the credentials of
// docker login and patient defaults.
type Access struct {
	Keychain  authn.Keychain
	Transport http.RoundTripper
	// Wait is the first wait after a failure or a rate limit that names no
	// time; 1 s by default. MaxWait caps what one request waits; 5 min.
	Wait, MaxWait time.Duration
	// Settle is how long a push looks on after it moved a tag: longer than
	// another publisher needs between reading the tag and writing it. By
	// default that is twice what it took here, at least 50 ms.
	Settle time.Duration
	// Jobs is how many variants travel at once, 8 by default: registries spend
	// most of an upload waiting for their disk.
	Jobs int
	// Chunk is how much of a large blob one request carries; 32 MiB by default.
	// A smaller blob goes by one request; of a larger one, what had arrived is
	// not sent again after a failure.
	Chunk int64
	Log   func(format string, args ...any)
}

func (a Access) withDefaults() Access {
	if a.Keychain == nil {
		a.Keychain = authn.DefaultKeychain
	}
	if a.Transport == nil {
		a.Transport = remote.DefaultTransport
	}
	if a.Wait == 0 {
		a.Wait = time.Second
	}
	if a.MaxWait == 0 {
		a.MaxWait = 5 * time.Minute
	}
	if a.Jobs == 0 {
		a.Jobs = 8
	}
	if a.Chunk == 0 {
		a.Chunk = 32 << 20
	}
	if a.Log == nil {
		a.Log = func(string, ...any) {}
	}
	return a
}

// steady is the transport that waits out what passes; what is sent is added to
// sent.
func (a Access) steady(sent *atomic.Int64) *steady {
	return &steady{base: a.Transport, wait: a.Wait, maxWait: a.MaxWait, sent: sent, log: a.Log}
}

// options makes the library's options for a transport.
func (a Access) options(ctx context.Context, rt http.RoundTripper) []remote.Option {
	return []remote.Option{
		remote.WithContext(ctx),
		remote.WithAuthFromKeychain(a.Keychain),
		remote.WithTransport(rt),
		remote.WithJobs(a.Jobs),
		remote.WithUserAgent("thoxbuild"),
		remote.WithRetryBackoff(remote.Backoff{Duration: a.Wait, Factor: 2, Jitter: 0.3, Steps: 6}),
		remote.WithRetryPredicate(retryable),
		remote.WithRetryStatusCodes(), // steady repeats these
	}
}

// retryable reports what a new try may cure. A blob upload starts over with a
// new session, so one that the registry forgot (404), whose offset it disputes
// (416) or whose content it mixed up (a digest that differs) is among it.
func retryable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var te *transport.Error
	if errors.As(err, &te) {
		if te.Temporary() {
			return true
		}
		for _, d := range te.Errors {
			if d.Code == transport.BlobUploadUnknownErrorCode || d.Code == transport.BlobUploadInvalidErrorCode || d.Code == transport.DigestInvalidErrorCode {
				return true
			}
		}
		return transient(te.StatusCode) || te.StatusCode == http.StatusRequestedRangeNotSatisfiable
	}
	var ne net.Error
	var cut textproto.ProtocolError // a header that ends early
	return errors.As(err, &ne) || errors.As(err, &cut) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed)
}
