package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// access says what a request may do. It travels in the context, because
// redirects make new requests from it.
type access struct {
	// auth lets the token be sent, to the endpoint's origin only.
	auth bool
	// offsite lets redirects lead to another origin, as downloads from a CDN
	// do.
	offsite bool
}

type accessKey struct{}

func accessOf(ctx context.Context) access {
	a, _ := ctx.Value(accessKey{}).(access)
	return a
}

// authTransport is the only place that puts the token on the wire. It looks at
// every hop, so that a redirect can't take the token elsewhere.
type authTransport struct {
	base      http.RoundTripper
	origin    string
	token     Token
	userAgent string
}

var _ http.RoundTripper = (*authTransport)(nil)

// RoundTrip implements http.RoundTripper.
func (t *authTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	r := req.Clone(req.Context())
	r.Header.Del("Authorization")
	// A presigned header of an LFS server survives only on the request that
	// it was made for; see putHeaders.
	if own, ok := req.Context().Value(ownAuthKey{}).(ownAuth); ok && own.origin == origin(req.URL) {
		r.Header.Set("Authorization", own.value)
	} else if accessOf(req.Context()).auth && !t.token.IsZero() && origin(req.URL) == t.origin {
		r.Header.Set("Authorization", "Bearer "+t.token.secret)
	}
	r.Header.Set("User-Agent", t.userAgent)
	r.Header.Del("Referer")
	return t.base.RoundTrip(r)
}

// ownAuth is an Authorization value that the server gave with an upload URL.
type ownAuth struct{ origin, value string }

type ownAuthKey struct{}

// maxRedirects is enough for a renamed repository in front of a CDN.
const maxRedirects = 5

// checkRedirect confines redirects: never from https to http, never with user
// information, and to another origin only where the call allows it.
func checkRedirect(req *http.Request, via []*http.Request) error {
	from := via[len(via)-1].URL
	switch {
	case len(via) > maxRedirects:
		return permanent(fmt.Errorf("stopped after %d redirects", maxRedirects))
	case req.URL.User != nil:
		return permanent(errors.New("refused a redirect to a URL with user information"))
	case req.URL.Scheme != "https" && req.URL.Scheme != "http", from.Scheme == "https" && req.URL.Scheme != "https":
		return permanent(fmt.Errorf("refused a redirect from %s to %s", from.Scheme, req.URL.Scheme))
	case origin(req.URL) != origin(from) && !accessOf(req.Context()).offsite:
		return permanent(fmt.Errorf("refused a redirect to another host, %s", req.URL.Host))
	}
	return nil
}

// checkTarget applies the same rules to a URL that a server hands out in a
// body, such as an upload address.
func (c *Client) checkTarget(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http"):
		return nil, permanent(errors.New("the server gave an upload address that is not an http(s) URL"))
	case u.User != nil:
		return nil, permanent(errors.New("the server gave an upload address with user information"))
	case c.endpoint.Scheme == "https" && u.Scheme != "https":
		return nil, permanent(fmt.Errorf("the server gave a plain http upload address (%s) though the endpoint is https", redact(u)))
	}
	return u, nil
}

// permanentError marks a failure that no repetition can cure.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

func permanent(err error) error { return permanentError{err} }

func isPermanent(err error) bool {
	var p permanentError
	return errors.As(err, &p)
}

func defaultTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 15 * time.Second,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        64, MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second,
		// Sizes are checked against what was announced, so nothing may be
		// inflated on the way.
		DisableCompression: true,
		WriteBufferSize:    64 << 10, ReadBufferSize: 64 << 10,
	}
}
