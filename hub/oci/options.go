package oci

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
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
	// Settle is how long a push looks on after it moved a tag, 250 ms by
	// default: longer than another publisher needs between reading the tag
	// and writing it.
	Settle time.Duration
	Jobs   int
	Log    func(format string, args ...any)
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
	if a.Settle == 0 {
		a.Settle = 250 * time.Millisecond
	}
	if a.Jobs == 0 {
		a.Jobs = 4
	}
	if a.Log == nil {
		a.Log = func(string, ...any) {}
	}
	return a
}

// options makes the library's options; what is sent is added to sent.
func (a Access) options(ctx context.Context, sent *atomic.Int64) []remote.Option {
	return []remote.Option{
		remote.WithContext(ctx),
		remote.WithAuthFromKeychain(a.Keychain),
		remote.WithTransport(&steady{base: a.Transport, wait: a.Wait, maxWait: a.MaxWait, sent: sent, log: a.Log}),
		remote.WithJobs(a.Jobs),
		remote.WithUserAgent("thoxbuild"),
		remote.WithRetryBackoff(remote.Backoff{Duration: a.Wait, Factor: 2, Jitter: 0.3, Steps: 6}),
		remote.WithRetryPredicate(retryable),
		remote.WithRetryStatusCodes(), // steady repeats these
	}
}

// retryable reports what a new try may cure. The library starts a blob upload
// over with a new session, so an upload that the registry forgot (404), or
// whose offset it disputes (416), is among it.
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
			if d.Code == transport.BlobUploadUnknownErrorCode || d.Code == transport.BlobUploadInvalidErrorCode {
				return true
			}
		}
		return transient(te.StatusCode) || te.StatusCode == http.StatusRequestedRangeNotSatisfiable
	}
	var ne net.Error
	return errors.As(err, &ne) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed)
}
