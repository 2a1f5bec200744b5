package server

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/thox-ai/thoxbuild/hub/store"
)

// Token is a token that the server accepts beside those of the store.
type Token struct {
	Secret string
	User   string
	Role   store.Role
	// Namespaces limits the token, as store.Token has it.
	Namespaces []string
}

// Options tune New. The zero value of every field but Store is useful.
type Options struct {
	// Store holds the repositories; it stays open when the server ends.
	Store *store.Store
	// Tokens are accepted beside those of the store. While there is no token at
	// all, everybody who reaches the server may read and write.
	Tokens []Token
	// Threshold is the size from which files are kept outside git, as LFS
	// objects; 1 MiB by default.
	Threshold int64
	// PartSize is the size of the parts of a multipart upload, and larger files
	// travel in parts; 16 MiB by default.
	PartSize int64
	// PageSize is how many entries a listing has; 1000 by default.
	PageSize int
	// TrustProxy takes the scheme and the host of URLs from X-Forwarded-Proto
	// and X-Forwarded-Host, for a server behind a reverse proxy.
	TrustProxy bool
	// NoXet makes preupload answer "regular" for every file, so that clients
	// send all content in the commit.
	NoXet bool
	// Log gets one line for each request; nil for none.
	Log *slog.Logger
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Server is an http.Handler that serves one store.
type Server struct {
	opts   Options
	store  *store.Store
	tokens []store.Token
	origin *http.CrossOriginProtection
}

// New returns the handler for a store.
func New(opts Options) (*Server, error) {
	if opts.Store == nil {
		return nil, errors.New("hub server: no store")
	}
	if opts.Threshold <= 0 {
		opts.Threshold = 1 << 20
	}
	if opts.PartSize <= 0 {
		opts.PartSize = 16 << 20
	}
	if opts.PageSize <= 0 {
		opts.PageSize = 1000
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	s := &Server{opts: opts, store: opts.Store, origin: http.NewCrossOriginProtection()}
	for _, t := range opts.Tokens {
		if t.Secret == "" || t.User == "" || t.Role != store.Read && t.Role != store.Write {
			return nil, errors.New("hub server: a token needs a secret, a user and the role read or write")
		}
		s.tokens = append(s.tokens, store.Token{Hash: store.HashToken(t.Secret), User: t.User, Name: t.User, Role: t.Role, Namespaces: t.Namespaces})
	}
	return s, nil
}

// open reports that no token exists, so that everybody may write.
func (s *Server) open() bool { return len(s.tokens) == 0 && len(s.store.Tokens()) == 0 }

// call is one request on its way through the server.
type call struct {
	*Server
	w    http.ResponseWriter
	r    *http.Request
	ctx  context.Context
	who  store.Token // zero for anonymous callers
	anon bool
	// segs are the path's segments, unescaped; more than one slash in a row is
	// kept as an empty segment, which no route accepts.
	segs []string
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := s.opts.Now()
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > 64 || strings.ContainsFunc(id, func(r rune) bool { return r <= 0x20 || r > 0x7e }) {
		id = rand.Text()
	}
	w.Header().Set("X-Request-Id", id)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	rec := &recorder{ResponseWriter: w}
	c := &call{Server: s, w: rec, r: r, ctx: r.Context()}
	if err := c.serve(); err != nil {
		c.fail(err)
	}
	if s.opts.Log != nil {
		s.opts.Log.Info("request", "method", r.Method, "path", logPath(r), "status", rec.status, "bytes", rec.bytes, "time", s.opts.Now().Sub(start), "id", id)
	}
}

func (c *call) serve() error {
	if err := c.guard(); err != nil {
		return err
	}
	for seg := range strings.SplitSeq(strings.TrimPrefix(c.r.URL.EscapedPath(), "/"), "/") {
		u, err := url.PathUnescape(seg)
		if err != nil {
			return badRequest("path: %v", err)
		}
		c.segs = append(c.segs, u)
	}
	return c.route()
}

// guard keeps web pages from using a server that asks for no token: neither a
// page of another origin nor a name that was pointed to 127.0.0.1 gets through.
func (c *call) guard() error {
	if err := c.origin.Check(c.r); err != nil {
		return &apiError{Status: http.StatusForbidden, Message: "cross-origin request from a browser"}
	}
	if !c.Server.open() || c.opts.TrustProxy {
		return nil
	}
	host := c.r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if ip := net.ParseIP(host); ip != nil || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return nil
	}
	return &apiError{Status: http.StatusMisdirectedRequest, Message: "this Hub has no tokens and answers only to localhost and IP addresses; use one of these in HF_ENDPOINT"}
}

// base is the scheme and host that the client used, without a final slash.
func (c *call) base() string {
	scheme, host := "http", c.r.Host
	if c.r.TLS != nil {
		scheme = "https"
	}
	if c.opts.TrustProxy {
		if p := c.r.Header.Get("X-Forwarded-Proto"); p == "http" || p == "https" {
			scheme = p
		}
		if h := c.r.Header.Get("X-Forwarded-Host"); h != "" && !strings.ContainsAny(h, "/\\@ ,") {
			host = h
		}
	}
	return scheme + "://" + host
}

// recorder remembers what was answered, for the log.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (r *recorder) WriteHeader(code int) {
	if r.status == 0 {
		r.status = code
	}
	r.ResponseWriter.WriteHeader(code)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(p)
	r.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// logPath leaves out the query, which may hold a capability's signature.
func logPath(r *http.Request) string {
	if p := r.URL.EscapedPath(); len(p) < 300 {
		return p
	}
	return r.URL.EscapedPath()[:300] + "..."
}
