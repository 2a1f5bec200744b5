package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func testFile(path string, data []byte) File {
	sum := sha256.Sum256(data)
	return File{Path: path, Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:]), Open: func() (ReadAtCloser, error) { return nopCloser{bytes.NewReader(data)}, nil }}
}

type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }

func newTest(t testing.TB, h http.HandlerFunc, token string) (*Client, *httptest.Server) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := New(Config{Endpoint: s.URL, Token: NewToken(token), Idle: 300 * time.Millisecond, Retry: Retry{Attempts: 3, Base: time.Millisecond, Max: 2 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

var demo = Repo{Kernel, "thox-ai", "demo"}

func TestParseRepo(t *testing.T) {
	for id, ok := range map[string]bool{
		"a/b": true, "thox-ai/thox_edge.ops": true, "a": false, "a/b/c": false, "/b": false, "a/": false, "a/b--c": false, "a/..": false,
		"a/b.git": false, "kernels/x": false, "api/x": false, "a/-b": false, "a/b%2f": false, "a/" + strings.Repeat("x", 97): false,
	} {
		if _, err := ParseRepo("", id); (err == nil) != ok {
			t.Errorf("%q: %v", id, err)
		}
	}
	if _, err := ParseRepo("space", "a/b"); err == nil {
		t.Error("a space was accepted")
	}
}

func TestCheckPath(t *testing.T) {
	for p, ok := range map[string]bool{"a": true, "a/b.c": true, "ä/b c#?.py": true, "": false, "/a": false, "a/": false, "a//b": false, "../a": false, "a/../b": false, "a/./b": false, `a\b`: false, "a\x00": false, "a\n": false} {
		if err := CheckPath(p); (err == nil) != ok {
			t.Errorf("%q: %v", p, err)
		}
	}
}

func TestTokenOrder(t *testing.T) {
	home := t.TempDir()
	other := filepath.Join(home, "other")
	if err := errors.Join(os.WriteFile(filepath.Join(home, "token"), []byte(" hf_file\n"), 0o600), os.WriteFile(other, []byte("hf_other"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"HF_TOKEN": "hf_a\n", "HUGGING_FACE_HUB_TOKEN": "hf_b", "HF_HOME": home}, "hf_a"},
		{map[string]string{"HUGGING_FACE_HUB_TOKEN": "hf_b", "HF_HOME": home}, "hf_b"},
		{map[string]string{"HF_TOKEN": "  ", "HF_HOME": home}, "hf_file"},
		{map[string]string{"HF_TOKEN_PATH": other, "HF_HOME": home}, "hf_other"},
		{map[string]string{"HOME": home}, ""},
	} {
		got, err := DiscoverToken(t.Context(), "http://127.0.0.1:1", func(k string) string { return tc.env[k] })
		if err != nil || got.Token.secret != tc.want {
			t.Errorf("%v: %q, %v", tc.env, got.Token.secret, err)
		}
	}
}

// An OIDC exchange that fails is an error that names no secret, not a fall
// through to the next place.
func TestOIDC(t *testing.T) {
	fail := false
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.URL.Path == "/actions" && r.Header.Get("Authorization") == "Bearer runner-secret" && r.URL.Query().Get("audience") == s.URL:
			_, _ = io.WriteString(w, `{"value":"the-jwt"}`)
		case r.URL.Path == "/oauth/token" && !fail && strings.Contains(string(body), `"the-jwt"`) && strings.Contains(string(body), `"kernels/a/b"`):
			_, _ = io.WriteString(w, `{"access_token":"hf_short"}`)
		default:
			http.Error(w, `{"error":"denied the-jwt"}`, http.StatusForbidden)
		}
	}))
	defer s.Close()
	env := map[string]string{"HF_OIDC_RESOURCE": "kernels/a/b", "HF_TOKEN": "hf_other", "ACTIONS_ID_TOKEN_REQUEST_URL": s.URL + "/actions?x=1", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "runner-secret"}
	get := func(k string) string { return env[k] }
	if got, err := DiscoverToken(t.Context(), s.URL, get); err != nil || got.Token.secret != "hf_short" {
		t.Errorf("%q, %v", got.Token.secret, err)
	}
	fail = true
	_, err := DiscoverToken(t.Context(), s.URL, get)
	if err == nil || strings.Contains(err.Error(), "the-jwt") || strings.Contains(err.Error(), "runner-secret") {
		t.Errorf("%v", err)
	}
}

func TestTokenNeverPrints(t *testing.T) {
	tok := NewToken("hf_secret")
	for _, s := range []string{fmt.Sprint(tok), fmt.Sprintf("%v %+v %#v %s %q %x %d", tok, tok, tok, tok, tok, tok, tok), fmt.Sprintf("%+v", Config{Token: tok}), fmt.Sprintf("%#v", &struct{ T Token }{tok})} {
		if strings.Contains(s, "hf_secret") || strings.Contains(s, hex.EncodeToString([]byte("hf_secret"))) {
			t.Errorf("%q", s)
		}
	}
}

func TestRetryWaits(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	h := func(k, v string) http.Header { return http.Header{http.CanonicalHeaderKey(k): {v}} }
	for _, tc := range []struct {
		h    http.Header
		want time.Duration
		ok   bool
	}{
		{h("Retry-After", "0"), 0, true},
		{h("Retry-After", "2"), 3 * time.Second, true},
		{h("Retry-After", "Mon, 30 Nov 2026 12:00:10 GMT"), 11 * time.Second, true},
		{h("Retry-After", "Mon, 30 Nov 2026 11:00:10 GMT"), time.Second, true},
		{h("Retry-After", "99999999999999999999"), 0, false},
		{h("Retry-After", "-1"), 0, false},
		{h("RateLimit", `"api";r=0;t=55`), 56 * time.Second, true},
		{h("RateLimit", `nonsense`), 0, false},
		{http.Header{}, 0, false},
	} {
		if d, ok := serverWait(tc.h, now); ok != tc.ok || d != tc.want {
			t.Errorf("%v: %v, %v", tc.h, d, ok)
		}
	}
	r := Retry{}.withDefaults()
	for n := range 100 {
		if d := r.wait(n+1, http.Header{}, now); d <= 0 || d > r.Max {
			t.Errorf("attempt %d: %v", n, d)
		}
	}
}

// A wait beyond the cap ends the call instead of sleeping for a day.
func TestWaitIsCapped(t *testing.T) {
	c, _ := newTest(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "86400")
		w.WriteHeader(429)
	}, "")
	_, err := c.Refs(t.Context(), demo, false)
	if err == nil || !strings.Contains(err.Error(), "429") {
		t.Error(err)
	}
}

// A server that stops talking is given up.
func TestIdle(t *testing.T) {
	stop := make(chan struct{})
	c, _ := newTest(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}, "")
	defer close(stop)
	c.retry.Attempts = 1
	_, err := c.Refs(t.Context(), demo, false)
	if !errors.Is(err, errIdle) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Refs(ctx, demo, false); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Redirects: the token does not leave the origin, calls do not leave it at
// all, downloads may, loops end.
func TestRedirects(t *testing.T) {
	var mu sync.Mutex
	leaked := ""
	offsite := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		leaked += r.Header.Get("Authorization") + r.Header.Get("Referer")
		_, _ = io.WriteString(w, "data")
	}))
	defer offsite.Close()
	c, s := newTest(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "/resolve/") && strings.HasSuffix(r.URL.Path, "cdn"), strings.HasSuffix(r.URL.Path, "/refs"):
			http.Redirect(w, r, offsite.URL+"/x?sig=1", http.StatusFound)
		case strings.HasSuffix(r.URL.Path, "loop"):
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		case strings.HasSuffix(r.URL.Path, "moved"):
			http.Redirect(w, r, "/kernels/thox-ai/demo/resolve/main/here", http.StatusTemporaryRedirect)
		case strings.HasSuffix(r.URL.Path, "here") && r.Header.Get("Authorization") == "Bearer hf_secret":
			_, _ = io.WriteString(w, "data")
		default:
			w.WriteHeader(404)
		}
	}, "hf_secret")
	for path, ok := range map[string]bool{"cdn": true, "moved": true, "loop": false} {
		r, err := c.Open(t.Context(), demo, "main", path, 4)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if (err == nil) != ok || ok && string(b) != "data" {
			t.Errorf("%s: %q, %v", path, b, err)
		}
	}
	if _, err := c.Refs(t.Context(), demo, false); err == nil || !strings.Contains(err.Error(), "another host") {
		t.Errorf("a call followed a redirect away: %v", err)
	}
	if leaked != "" {
		t.Errorf("leaked %q", leaked)
	}
	_ = s
}

// From https to http: neither by redirect nor by an upload address.
func TestNoDowngrade(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Error("reached over http") }))
	defer plain.Close()
	f := testFile("a.so", []byte("x"))
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/batch") {
			fmt.Fprintf(w, `{"transfer":"basic","objects":[{"oid":%q,"size":1,"actions":{"upload":{"href":"%s/put"}}}]}`, f.SHA256, plain.URL)
			return
		}
		http.Redirect(w, r, plain.URL, http.StatusFound)
	}))
	defer s.Close()
	c, err := New(Config{Endpoint: s.URL, Transport: s.Client().Transport, Retry: Retry{Attempts: 1}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Open(t.Context(), demo, "main", "a", 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); err == nil || !strings.Contains(err.Error(), "refused a redirect") {
		t.Error(err)
	}
	if _, err := c.UploadLFS(t.Context(), demo, []File{f}, UploadOptions{}); err == nil || !strings.Contains(err.Error(), "plain http") {
		t.Error(err)
	}
}

// Answers that do not fit what was asked are refused, each with its reason.
func TestLyingServer(t *testing.T) {
	data := []byte("0123456789")
	f := testFile("a.so", data)
	answer := ""
	c, _ := newTest(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.ReplaceAll(answer, "HOST", "http://"+r.Host))
	}, "")
	for a, want := range map[string]string{
		`{"transfer":"basic","objects":[]}`:                                                                                                                     "leaves out",
		`{"transfer":"xet","objects":[]}`:                                                                                                                       "transfer",
		`{"objects":[{"oid":"OID","size":11}]}`:                                                                                                                 "11 bytes",
		`{"objects":[{"oid":"OID","size":10,"error":{"code":507,"message":"full"}}]}`:                                                                           "full",
		`{"objects":[{"oid":"OID","size":10,"actions":{"upload":{"href":"file:///etc/passwd"}}}]}`:                                                              "not an http",
		`{"objects":[{"oid":"OID","size":10,"actions":{"upload":{"href":"http://u:p@HOST/"}}}]}`:                                                                "",
		`{"transfer":"multipart","objects":[{"oid":"OID","size":10,"actions":{"upload":{"href":"HOST","header":{"chunk_size":"0"}}}}]}`:                         "chunk_size",
		`{"transfer":"multipart","objects":[{"oid":"OID","size":10,"actions":{"upload":{"href":"HOST","header":{"chunk_size":"4","1":"HOST"}}}}]}`:              "part addresses",
		`{"transfer":"multipart","objects":[{"oid":"OID","size":10,"actions":{"upload":{"href":"HOST","header":{"chunk_size":"4","1":"a","2":"b","4":"c"}}}}]}`: "no address for part 3",
		`not json`: "not what the Hub sends",
	} {
		answer = strings.ReplaceAll(a, "OID", f.SHA256)
		_, err := c.UploadLFS(t.Context(), demo, []File{f}, UploadOptions{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", a, err)
		}
	}
	for a, want := range map[string]string{
		`[{"type":"file","path":"../../etc/passwd","oid":"` + strings.Repeat("a", 40) + `","size":1}]`: "not allowed",
		`[{"type":"file","path":"a","oid":"x/../y","size":1}]`:                                         "not a blob id",
		`[{"type":"file","path":"a","oid":"` + strings.Repeat("a", 40) + `","size":-1}]`:               "negative",
	} {
		answer = a
		if _, err := c.Tree(t.Context(), demo, "main", "", true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", a, err)
		}
	}
	answer = `{"branches":[{"name":"v1","targetCommit":"deadbeef"}]}`
	if _, err := c.Refs(t.Context(), demo, false); err == nil {
		t.Error("a short commit id was accepted")
	}
}

// Pages that lead elsewhere or nowhere end.
func TestPages(t *testing.T) {
	link := ""
	c, s := newTest(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", link)
		_, _ = io.WriteString(w, "[]")
	}, "hf_secret")
	for _, link = range []string{
		`<http://127.0.0.2:1/api/kernels/thox-ai/demo/tree/main?recursive=true&c=1>; rel="next"`,
		`<` + s.URL + `/api/whoami-v2>; rel="next"`,
		`<` + s.URL + `/api/kernels/thox-ai/demo/tree/main?recursive=true>; rel="next"`,
	} {
		if _, err := c.Tree(t.Context(), demo, "main", "", true); err == nil {
			t.Errorf("followed %s", link)
		}
	}
}

// A part that failed half way is sent again whole, with the right length; an
// expired address is asked for anew.
func TestMultipartRetries(t *testing.T) {
	data := bytes.Repeat([]byte("abcdefghij"), 1000)
	f := testFile("a.so", data)
	for _, size := range []int64{3000, 5000, 10_000, 9_999} {
		var mu sync.Mutex
		parts := map[string][]byte{}
		failed := map[string]bool{}
		batches, completed := 0, ""
		c, s := newTest(t, nil, "")
		s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case strings.HasSuffix(r.URL.Path, "/batch"):
				batches++
				var h []string
				for n := int64(0); n*size < int64(len(data)); n++ {
					h = append(h, fmt.Sprintf(`"%05d":"%s/part/%d?batch=%d"`, n+1, s.URL, n+1, batches))
				}
				fmt.Fprintf(w, `{"transfer":"multipart","objects":[{"oid":%q,"size":%d,"actions":{"upload":{"href":"%s/done","header":{"chunk_size":"%d",%s}}}}]}`, f.SHA256, len(data), s.URL, size, strings.Join(h, ","))
			case strings.HasPrefix(r.URL.Path, "/part/"):
				if !failed[r.URL.Path] {
					failed[r.URL.Path] = true
					_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength/2)
					if r.URL.Path == "/part/1" {
						w.WriteHeader(500)
						return
					}
					panic(http.ErrAbortHandler)
				}
				if r.URL.Query().Get("batch") == "1" && r.URL.Path == "/part/1" {
					http.Error(w, "<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>", http.StatusForbidden)
					return
				}
				b, err := io.ReadAll(r.Body)
				if err != nil || int64(len(b)) != r.ContentLength {
					t.Errorf("%s: %d of %d bytes, %v", r.URL.Path, len(b), r.ContentLength, err)
				}
				parts[r.URL.Path] = b
				w.Header().Set("ETag", `"etag`+r.URL.Path+`"`)
			case r.URL.Path == "/done":
				b, _ := io.ReadAll(r.Body)
				completed = string(b)
			}
		})
		p := &total{}
		sent, err := c.UploadLFS(t.Context(), demo, []File{f, f}, UploadOptions{Progress: p})
		if err != nil {
			t.Fatal(err)
		}
		var whole []byte
		for n := 1; parts[fmt.Sprintf("/part/%d", n)] != nil; n++ {
			whole = append(whole, parts[fmt.Sprintf("/part/%d", n)]...)
		}
		if !slices.Equal(whole, data) || sent != int64(len(data)) || batches != 2 || !strings.Contains(completed, `"partNumber":1,"etag":"\"etag/part/1\""`) {
			t.Errorf("parts of %d: %d bytes, sent %d, %d batches, %s", size, len(whole), sent, batches, completed)
		}
	}
}

type total struct {
	mu sync.Mutex
	n  int64
}

func (p *total) Add(n int64) { p.mu.Lock(); p.n += n; p.mu.Unlock() }

// A download that breaks goes on where it broke, also with a server that
// ignores ranges; one that lies about its size or range fails.
func TestDownloadResumes(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), 5000)
	for _, ranges := range []bool{true, false} {
		n := 0
		c, _ := newTest(t, func(w http.ResponseWriter, r *http.Request) {
			n++
			from := 0
			if h := r.Header.Get("Range"); h != "" && ranges {
				_, _ = fmt.Sscanf(h, "bytes=%d-", &from)
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(data)-1, len(data)))
				w.Header().Set("Content-Length", fmt.Sprint(len(data)-from))
				w.WriteHeader(206)
			} else {
				w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			}
			end := min(from+20_000, len(data))
			if !ranges {
				end = min(15_000*n, len(data))
			}
			_, _ = w.Write(data[from:end])
			if end < len(data) {
				panic(http.ErrAbortHandler)
			}
		}, "")
		r, err := c.Open(t.Context(), demo, "main", "a", int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, data) || n < 3 {
			t.Errorf("ranges %v: %d bytes in %d requests, %v", ranges, len(got), n, err)
		}
	}
	c, _ := newTest(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(data) }, "")
	r, err := c.Open(t.Context(), demo, "main", "a", 7)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); err == nil {
		t.Errorf("a size that the tree does not list was accepted: %d bytes", len(b))
	}
}

// A commit whose files change while it is sent is not applied, and is not
// uncertain either.
func TestCommitFileChanges(t *testing.T) {
	applied := false
	c, _ := newTest(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err == nil {
			applied = true
		}
	}, "")
	f := testFile("a.py", []byte("old old old"))
	f.Open = func() (ReadAtCloser, error) { return nopCloser{bytes.NewReader([]byte("new new new"))}, nil }
	_, err := c.Commit(t.Context(), demo, NewCommit{Branch: "v1", Parent: strings.Repeat("a", 40), Ops: []Op{{Add: &f}}})
	if err == nil || errors.Is(err, ErrUncertain) || applied || !strings.Contains(err.Error(), "changed") {
		t.Errorf("applied %v: %v", applied, err)
	}
}
