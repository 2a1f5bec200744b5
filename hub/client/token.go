package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Token is a Hub access token. It prints as a placeholder whatever the verb,
// so that a stray %v can't leak it.
type Token struct{ secret string }

// NewToken wraps a token, without the white space around it. An empty one
// means anonymous access.
func NewToken(s string) Token { return Token{strings.TrimSpace(s)} }

// IsZero reports whether there is no token.
func (t Token) IsZero() bool { return t.secret == "" }

// String returns a placeholder.
func (t Token) String() string {
	if t.IsZero() {
		return "(no token)"
	}
	return "(token)"
}

// Format implements fmt.Formatter, so that no verb reaches the secret.
func (t Token) Format(f fmt.State, _ rune) { fmt.Fprint(f, t.String()) }

// MarshalText implements encoding.TextMarshaler with the placeholder.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// scrub takes the token out of a text that came from elsewhere, such as an
// error message in which a server quotes the request.
func (t Token) scrub(s string) string {
	if t.IsZero() {
		return s
	}
	return strings.ReplaceAll(s, t.secret, "(token)")
}

// Discovered is a token and where it came from.
type Discovered struct {
	Token  Token
	Source string
	// Warning says why a token that ends soon could not be exchanged for a new
	// one; empty otherwise.
	Warning string
}

// DiscoverToken finds the token where huggingface_hub looks, in its order:
// an OIDC exchange when HF_OIDC_RESOURCE is set (a failure is an error, never
// a fall through), HF_TOKEN, HUGGING_FACE_HUB_TOKEN, then the file that
// HF_TOKEN_PATH or HF_HOME names. A token in that file that stored_tokens
// beside it says ends within a day is exchanged first. With none anywhere the
// token is zero and the error nil.
func DiscoverToken(ctx context.Context, endpoint string, getenv func(string) string) (Discovered, error) {
	if resource := getenv("HF_OIDC_RESOURCE"); resource != "" {
		t, err := exchangeOIDC(ctx, endpoint, resource, getenv)
		return Discovered{Token: t, Source: "OIDC exchange"}, err
	}
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
		if t := NewToken(getenv(name)); !t.IsZero() {
			return Discovered{Token: t, Source: name}, nil
		}
	}
	path := tokenPath(getenv)
	if path == "" {
		return Discovered{}, nil
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Discovered{}, nil
	}
	if err != nil {
		return Discovered{}, fmt.Errorf("read the token file: %w", err)
	}
	d := Discovered{Token: NewToken(string(b)), Source: path}
	if d.Token.IsZero() {
		return d, nil
	}
	if d.Token, err = refreshed(ctx, endpoint, path, d.Token, getenv); err != nil {
		d.Warning = fmt.Sprintf("the token in %s ends soon and was not renewed: %s; 'hf auth login' makes a new one", path, d.Token.scrub(err.Error()))
	}
	return d, nil
}

// DefaultEndpoint is HF_ENDPOINT without its trailing slash, or the public
// Hub.
func DefaultEndpoint(getenv func(string) string) string {
	if e := strings.TrimRight(getenv("HF_ENDPOINT"), "/"); e != "" {
		return e
	}
	return "https://huggingface.co"
}

// Home is HF_HOME, or where it is by default.
func Home(getenv func(string) string) string {
	if h := getenv("HF_HOME"); h != "" {
		return h
	}
	if x := getenv("XDG_CACHE_HOME"); x != "" {
		return filepath.Join(x, "huggingface")
	}
	if h := getenv("HOME"); h != "" {
		return filepath.Join(h, ".cache", "huggingface")
	}
	return ""
}

func tokenPath(getenv func(string) string) string {
	if p := getenv("HF_TOKEN_PATH"); p != "" {
		return p
	}
	if h := Home(getenv); h != "" {
		return filepath.Join(h, "token")
	}
	return ""
}

// exchangeOIDC trades the CI's identity token for a short-lived Hub token.
func exchangeOIDC(ctx context.Context, endpoint, resource string, getenv func(string) string) (Token, error) {
	fail := func(err error) (Token, error) {
		return Token{}, fmt.Errorf("HF_OIDC_RESOURCE is set, but the token exchange failed: %w", err)
	}
	c, err := New(Config{Endpoint: endpoint})
	if err != nil {
		return fail(err)
	}
	jwt := NewToken(getenv("HF_OIDC_ID_TOKEN"))
	if jwt.IsZero() {
		if jwt, err = actionsToken(ctx, endpoint, getenv); err != nil {
			return fail(err)
		}
	}
	body, err := json.Marshal(map[string]string{
		"grant_type":         "urn:ietf:params:oauth:grant-type:token-exchange",
		"subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
		"subject_token":      jwt.secret,
		"resource":           resource,
	})
	if err != nil {
		return fail(err)
	}
	var out struct {
		AccessToken string `json:"access_token"`
	}
	err = c.do(ctx, call{
		op: "exchange the identity token", method: http.MethodPost, url: c.url("/oauth/token"),
		body: bytesBody(body), contentType: "application/json", retry: true, result: &out,
	})
	if err != nil {
		return fail(errors.New(jwt.scrub(err.Error())))
	}
	t := NewToken(out.AccessToken)
	if t.IsZero() {
		return fail(errors.New("the answer holds no access_token"))
	}
	return t, nil
}

// actionsToken asks GitHub Actions for an identity token made out to the
// endpoint.
func actionsToken(ctx context.Context, endpoint string, getenv func(string) string) (Token, error) {
	base, secret := getenv("ACTIONS_ID_TOKEN_REQUEST_URL"), NewToken(getenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN"))
	if base == "" || secret.IsZero() {
		return Token{}, errors.New("no HF_OIDC_ID_TOKEN, and ACTIONS_ID_TOKEN_REQUEST_URL and _TOKEN are not set; give the job the id-token: write permission")
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return Token{}, errors.New("ACTIONS_ID_TOKEN_REQUEST_URL is not a URL")
	}
	q := u.Query()
	q.Set("audience", endpoint)
	u.RawQuery = q.Encode()
	// A client of its own: its endpoint is the token service, so its token
	// can't travel to the Hub, nor the Hub's to it.
	c, err := New(Config{Endpoint: u.Scheme + "://" + u.Host, Token: secret})
	if err != nil {
		return Token{}, err
	}
	var out struct {
		Value string `json:"value"`
	}
	err = c.do(ctx, call{op: "ask GitHub for an identity token", method: http.MethodGet, url: u, auth: true, retry: true, result: &out})
	return NewToken(out.Value), err
}
