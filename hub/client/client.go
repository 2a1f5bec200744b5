package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config says which Hub to talk to and how.
type Config struct {
	// Endpoint is the Hub's address, such as https://huggingface.co. A path
	// prefix is kept.
	Endpoint string
	Token    Token
	// UserAgent is sent with every request; "thoxbuild" by default.
	UserAgent string
	Retry     Retry
	// Idle ends an attempt in which no byte moved for so long; 60 s by
	// default. A commit may take ten times as long to be answered.
	Idle time.Duration
	// Transport carries the requests; a tuned http.Transport by default.
	Transport http.RoundTripper
	// Log receives one line per repeated attempt; nil for silence.
	Log func(format string, args ...any)
}

// Client talks to one Hub. It is safe for concurrent use.
type Client struct {
	endpoint *url.URL
	token    Token
	retry    Retry
	idle     time.Duration
	http     *http.Client
	log      func(string, ...any)
}

// New checks the configuration. It sends nothing.
func New(cfg Config) (*Client, error) {
	u, err := url.Parse(strings.TrimRight(cfg.Endpoint, "/"))
	if err != nil {
		return nil, errors.New("the Hub's endpoint is not a URL; expected something like https://huggingface.co")
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, fmt.Errorf("endpoint %q: expected http(s)://HOST without user or query; set HF_ENDPOINT or --endpoint", redact(u))
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "thoxbuild"
	}
	if cfg.Idle == 0 {
		cfg.Idle = time.Minute
	}
	if cfg.Transport == nil {
		cfg.Transport = defaultTransport()
	}
	if cfg.Log == nil {
		cfg.Log = func(string, ...any) {}
	}
	c := &Client{endpoint: u, token: cfg.Token, retry: cfg.Retry.withDefaults(), idle: cfg.Idle, log: cfg.Log}
	c.http = &http.Client{
		Transport:     &authTransport{base: cfg.Transport, origin: origin(u), token: cfg.Token, userAgent: cfg.UserAgent},
		CheckRedirect: checkRedirect,
	}
	return c, nil
}

// Endpoint returns the Hub's address without a trailing slash.
func (c *Client) Endpoint() string { return c.endpoint.String() }

// url returns the address of an escaped path, which may carry a query.
func (c *Client) url(escaped string) *url.URL {
	u := *c.endpoint
	path, query, _ := strings.Cut(escaped, "?")
	raw := c.endpoint.EscapedPath() + path
	unescaped, err := url.PathUnescape(raw)
	if err != nil { // every caller escapes; a bare % would be a bug here
		unescaped = raw
	}
	u.Path, u.RawPath, u.RawQuery = unescaped, raw, query
	return &u
}

// origin is scheme, host and port: what decides who may see the token.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}
