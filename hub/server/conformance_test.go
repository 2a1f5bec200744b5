package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/thox-ai/thoxbuild/hub/store"
)

// ask sends one request and returns the answer with its body read.
func ask(t testing.TB, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] != "" {
			req.Header.Set(header[i], header[i+1])
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

const commitBody = `{"key":"header","value":{"summary":"s","description":""}}
{"key":"file","value":{"path":"build/v/a b#.py","content":"aGVsbG8=","encoding":"base64"}}
{"key":"file","value":{"path":"README.md","content":"","encoding":"base64"}}
`

// TestConformance walks through the protocol request by request. Each row runs
// on what the rows before it made.
func TestConformance(t *testing.T) {
	hs, _ := newHub(t)
	const k, r = "/api/kernels/thox-ai/k", "/kernels/thox-ai/k"
	create := `{"name":"k","organization":"thox-ai","type":"kernel"}`
	for _, row := range []struct {
		method, path, body string
		status             int
		code, want         string // X-Error-Code, and a part of the body
	}{
		{"GET", "/api/whoami-v2", "", 200, "", `"name":"local"`},
		{"GET", "/api/agent-harnesses", "", 200, "", `"harnesses"`},
		{"POST", "/api/validate-yaml", `{"content":"---\na: b\n---\n","repoType":"kernel"}`, 200, "", `"errors":[]`},
		{"POST", "/api/validate-yaml", `{"content":"---\na: b\n","repoType":"kernel"}`, 400, "", `never closed`},
		{"GET", k, "", 404, "RepoNotFound", ""},
		{"POST", "/api/repos/create", `{`, 400, "", ""},
		{"POST", "/api/repos/create", `{"name":"../k","organization":"x","type":"kernel"}`, 400, "", ""},
		{"POST", "/api/repos/create", `{"name":"k","organization":"api","type":"kernel"}`, 400, "", "reserved"},
		{"POST", "/api/repos/create", create, 200, "", r},
		{"POST", "/api/repos/create", create, 409, "", `"url":"` + hs.URL + r + `"`},
		{"POST", "/api/repos/create", `{"name":"p","organization":"thox-ai","type":"model","private":true}`, 200, "", ""},
		{"GET", "/api/models/thox-ai/p", "", 200, "", `"private":true`},
		{"GET", "/api/organizations/thox-ai/overview", "", 200, "", `"trustedKernelPublisher":true`},
		{"GET", "/api/organizations/nobody/overview", "", 404, "", ""},
		{"GET", k + "/refs", "", 200, "", `"converts":[]`},
		{"POST", k + "/preupload/main", `{"files":[{"path":"a","size":3},{"path":"b","size":99999999}],"gitIgnore":"a\n"}`, 200, "", `{"path":"a","uploadMode":"regular","shouldIgnore":true},{"path":"b","uploadMode":"lfs","shouldIgnore":false}`},
		{"POST", k + "/preupload/main", `{"files":[{"path":"../a","size":3}]}`, 400, "", ""},
		{"POST", k + "/preupload/none", `{"files":[]}`, 404, "RevisionNotFound", ""},
		{"POST", k + "/commit/main", commitBody, 200, "", `"commitOid"`},
		{"POST", k + "/commit/none", commitBody, 404, "RevisionNotFound", ""},
		{"POST", k + "/commit/main", `{"key":"header","value":{"summary":"s","parentCommit":"01234"}}`, 412, "", "Please refresh and try again"},
		{"POST", k + "/commit/main", `{"key":"header","value":{"summary":"s"}}` + "\n" + `{"key":"deletedFile","value":{"path":"nope"}}`, 404, "EntryNotFound", "a file with this name doesn't exist"},
		{"POST", k + "/commit/main", `{"key":"header","value":{"summary":"s"}}` + "\n" + `{"key":"file","value":{"path":"../x","content":"aaaa"}}`, 400, "", "line 2"},
		{"POST", k + "/commit/main", `{"key":"header","value":{"summary":"s"}}` + "\n" + `{"key":"lfsFile","value":{"path":"x","algo":"sha256","oid":"` + strings.Repeat("ab", 32) + `"}}`, 400, "", "never uploaded"},
		{"POST", k + "/branch/v1", "{}", 200, "", ""},
		{"POST", k + "/branch/v1", "{}", 409, "", "already exists"},
		{"POST", k + "/branch/feat%2Fx", `{"startingPoint":"v1"}`, 200, "", ""},
		{"POST", k + "/branch/feat", `{"startingPoint":"v1"}`, 409, "", ""},
		{"POST", k + "/branch/refs%2Fheads%2Fx", "{}", 400, "", "Invalid reference for a branch"},
		{"POST", k + "/branch/..%2F..%2Fx", "{}", 400, "", ""},
		{"POST", k + "/tag/v1", `{"tag":"t1"}`, 200, "", ""},
		{"POST", k + "/tag/v1", `{"tag":"t1"}`, 409, "", ""},
		{"POST", k + "/commit/t1", commitBody, 404, "RevisionNotFound", ""},
		{"DELETE", k + "/branch/main", "", 403, "", "Cannot delete"},
		{"DELETE", k + "/branch/gone", "", 404, "RevisionNotFound", ""},
		{"GET", k + "/revision/refs%2Fheads%2Fv1", "", 200, "", `"repoType":"kernel"`},
		{"GET", k + "/tree/refs%2Fheads%2Fv1/build", "", 200, "", `"type":"directory"`},
		{"GET", k + "/tree/v1/build%2Fv", "", 200, "", `"path":"build/v/a b#.py"`},
		{"GET", k + "/tree/v1/build/v", "", 200, "", `"size":5`},
		{"GET", k + "/tree/v1/none", "", 404, "EntryNotFound", ""},
		{"GET", k + "/commits/v1", "", 200, "", `"title":"initial commit"`},
		{"GET", r + "/resolve/v1/build/v/a%20b%23.py", "", 200, "", "hello"},
		{"GET", r + "/resolve/feat%2Fx/build/v/a%20b%23.py", "", 200, "", "hello"},
		{"GET", r + "/resolve/v1/none", "", 404, "EntryNotFound", ""},
		{"GET", r + "/resolve/v1/..%2F..%2Fconfig", "", 404, "EntryNotFound", ""},
		{"GET", r + "/resolve/nope/a", "", 404, "RevisionNotFound", ""},
		{"GET", k + "/xet-read-token/main", "", 404, "", ""},
		{"PUT", "/api/lfs/put/x/y/1?grant=9999999999.AAAA", "z", 403, "", ""},
		{"POST", "/api/xet/a-b/v1/shards", "", 403, "", ""},
		{"POST", k + "/discussions", `{"title":"t","pullRequest":false}`, 200, "", `"num":1`},
		{"DELETE", "/api/repos/delete", create, 200, "", ""},
		{"DELETE", "/api/repos/delete", create, 404, "RepoNotFound", ""},
		{"GET", "/nothing", "", 404, "", `"error"`},
	} {
		name := row.method + " " + row.path
		resp, body := ask(t, row.method, hs.URL+row.path, row.body)
		if resp.StatusCode != row.status || resp.Header.Get("X-Error-Code") != row.code || !strings.Contains(body, row.want) {
			t.Errorf("%s: %d %q %s\nwant %d %q %s", name, resp.StatusCode, resp.Header.Get("X-Error-Code"), body, row.status, row.code, row.want)
		}
		if row.status >= 400 && resp.Header.Get("X-Error-Message") == "" || resp.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: headers %v", name, resp.Header)
		}
		if strings.HasPrefix(body, "{") && !json.Valid([]byte(body)) {
			t.Errorf("%s: body is no JSON: %s", name, body)
		}
	}
}

func TestResolveHeaders(t *testing.T) {
	hs, _ := newHub(t)
	ask(t, "POST", hs.URL+"/api/repos/create", `{"name":"k","organization":"n","type":"model"}`)
	ask(t, "POST", hs.URL+"/api/models/n/k/commit/main", `{"key":"header","value":{"summary":"s"}}`+"\n"+`{"key":"file","value":{"path":"a","content":"aGVsbG8="}}`)
	url := hs.URL + "/n/k/resolve/main/a"
	const etag = `"b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0"` // git's id of "hello"
	for _, row := range []struct {
		method, header, value string
		status                int
		body                  string
	}{
		{"GET", "", "", 200, "hello"},
		{"HEAD", "", "", 200, ""},
		{"GET", "Range", "bytes=1-2", 206, "el"},
		{"GET", "Range", "bytes=3-", 206, "lo"},
		{"GET", "Range", "bytes=9-", 416, ""},
		{"GET", "If-None-Match", etag, 304, ""},
		{"HEAD", "If-None-Match", etag, 200, ""},
	} {
		resp, body := ask(t, row.method, url, "", row.header, row.value)
		if resp.StatusCode != row.status || row.status != 416 && body != row.body || len(resp.Header.Get("X-Repo-Commit")) != 40 {
			t.Errorf("%s %s %s: %d %q %v, want %d %q", row.method, row.header, row.value, resp.StatusCode, body, resp.Header, row.status, row.body)
		}
		if row.status != 416 && resp.Header.Get("ETag") != etag {
			t.Errorf("%s %s %s: ETag %s, want %s", row.method, row.header, row.value, resp.Header.Get("ETag"), etag)
		}
		if row.method == "HEAD" && resp.ContentLength != 5 {
			t.Errorf("HEAD says %d bytes", resp.ContentLength)
		}
	}
}

func TestTokensAndPrivacy(t *testing.T) {
	hs, _ := newHub(t, func(o *Options) {
		o.Tokens = []Token{{Secret: "w", User: "ann", Role: store.Write}, {Secret: "r", User: "bob", Role: store.Read}, {Secret: "o", User: "eve", Role: store.Write, Namespaces: []string{"evil"}}}
	})
	body := `{"name":"k","organization":"ann","type":"kernel","private":true}`
	const k = "/api/kernels/ann/k"
	for _, row := range []struct {
		token, method, path, body string
		status                    int
		code                      string
	}{
		{"", "POST", "/api/repos/create", body, 401, ""},
		{"r", "POST", "/api/repos/create", body, 403, ""},
		{"o", "POST", "/api/repos/create", body, 403, ""},
		{"x", "POST", "/api/repos/create", body, 401, ""},
		{"w", "POST", "/api/repos/create", body, 200, ""},
		{"", "GET", k, "", 401, "RepoNotFound"},
		{"o", "GET", k, "", 404, "RepoNotFound"},
		{"r", "GET", k, "", 200, ""},
		{"r", "POST", k + "/commit/main", commitBody, 403, ""},
		{"r", "POST", k + "/commit/main?create_pr=1", commitBody, 200, ""},
		{"r", "POST", k + "/discussions/1/merge", "", 403, ""},
		{"w", "POST", k + "/discussions/1/merge", "", 200, ""},
		{"o", "DELETE", "/api/repos/delete", body, 404, "RepoNotFound"},
		{"", "GET", "/kernels/ann/k/resolve/main/README.md", "", 401, "RepoNotFound"},
		{"", "GET", "/api/whoami-v2", "", 401, ""},
	} {
		auth := ""
		if row.token != "" {
			auth = "Bearer " + row.token
		}
		var h []string
		if auth != "" {
			h = []string{"Authorization", auth}
		}
		resp, got := ask(t, row.method, hs.URL+row.path, row.body, h...)
		if resp.StatusCode != row.status || resp.Header.Get("X-Error-Code") != row.code {
			t.Errorf("%q %s %s: %d %q %s, want %d %q", row.token, row.method, row.path, resp.StatusCode, resp.Header.Get("X-Error-Code"), got, row.status, row.code)
		}
	}
}

// TestBrowserPagesAreKeptOut: a Hub without tokens must not be a gift to any
// page that a browser on this machine shows.
func TestBrowserPagesAreKeptOut(t *testing.T) {
	hs, _ := newHub(t)
	resp, _ := ask(t, "POST", hs.URL+"/api/repos/create", `{"name":"k","organization":"n"}`, "Origin", "https://evil.test", "Sec-Fetch-Site", "cross-site")
	if resp.StatusCode != 403 {
		t.Errorf("cross-origin POST: %d, want 403", resp.StatusCode)
	}
	req, _ := http.NewRequest("GET", hs.URL+"/api/models", nil)
	req.Host = "rebound.test"
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("foreign Host: %d, want 421", resp.StatusCode)
	}
}

// TestRaces lets eight publishers commit to one parent: one wins, the others
// are told to look again.
func TestRaces(t *testing.T) {
	hs, s := newHub(t)
	ask(t, "POST", hs.URL+"/api/repos/create", `{"name":"k","organization":"n","type":"kernel"}`)
	repo, err := s.store.Repo(store.Kernel, "n/k")
	if err != nil {
		t.Fatal(err)
	}
	head, err := repo.Resolve("main")
	if err != nil {
		t.Fatal(err)
	}
	var won, stale atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			body := fmt.Sprintf(`{"key":"header","value":{"summary":"%d","parentCommit":"%s"}}`+"\n"+`{"key":"file","value":{"path":"f","content":"aaa%d"}}`, i, head, i)
			switch resp, got := ask(t, "POST", hs.URL+"/api/kernels/n/k/commit/main", body); resp.StatusCode {
			case 200:
				won.Add(1)
			case 412:
				stale.Add(1)
			default:
				t.Errorf("publisher %d: %d %s", i, resp.StatusCode, got)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || stale.Load() != 7 {
		t.Errorf("%d won and %d were stale, want 1 and 7", won.Load(), stale.Load())
	}
}

// TestFullDiskAnswers507 and leaves the branch where it was; the same request
// works when there is room.
func TestFullDiskAnswers507(t *testing.T) {
	var full atomic.Bool
	st, err := store.Open(t.TempDir(), store.Options{Fault: func(op, path string) error {
		if full.Load() && (op == "write" || op == "sync") {
			return syscall.ENOSPC
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	hs, _ := newHub(t, func(o *Options) { o.Store.Close(); o.Store = st })
	t.Cleanup(func() { st.Close() })
	ask(t, "POST", hs.URL+"/api/repos/create", `{"name":"k","organization":"thox-ai","type":"kernel"}`)
	full.Store(true)
	if resp, body := ask(t, "POST", hs.URL+"/api/kernels/thox-ai/k/commit/main", commitBody); resp.StatusCode != 507 || !strings.Contains(body, "disk is full") {
		t.Errorf("full disk: %d %s, want 507", resp.StatusCode, body)
	}
	full.Store(false)
	if resp, _ := ask(t, "GET", hs.URL+"/kernels/thox-ai/k/resolve/main/README.md", ""); resp.StatusCode != 404 {
		t.Errorf("after the failed commit: %d, want 404", resp.StatusCode)
	}
	if resp, body := ask(t, "POST", hs.URL+"/api/kernels/thox-ai/k/commit/main", commitBody); resp.StatusCode != 200 {
		t.Errorf("with room again: %d %s", resp.StatusCode, body)
	}
}

// TestCutUploads cuts a commit's body at every tenth byte.
func TestCutUploads(t *testing.T) {
	hs, s := newHub(t)
	ask(t, "POST", hs.URL+"/api/repos/create", `{"name":"k","organization":"thox-ai","type":"kernel"}`)
	repo, err := s.store.Repo(store.Kernel, "thox-ai/k")
	if err != nil {
		t.Fatal(err)
	}
	before, _ := repo.Resolve("main")
	broken := errors.New("cut")
	// A cut at the very end of a line is a shorter commit that is whole; so the
	// announced length is what tells.
	for n := 0; n < len(commitBody)-1; n += 10 {
		req, _ := http.NewRequest("POST", hs.URL+"/api/kernels/thox-ai/k/commit/main", io.MultiReader(strings.NewReader(commitBody[:n]), errReader{broken}))
		req.ContentLength = int64(len(commitBody))
		if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == 200 {
				t.Errorf("a commit cut at byte %d was accepted", n)
			}
		}
	}
	if after, _ := repo.Resolve("main"); after != before {
		t.Errorf("main moved from %v to %v", before, after)
	}
	rep, err := s.store.Fsck(t.Context())
	if err != nil || len(rep.Findings) > 0 {
		t.Errorf("fsck: %+v, %v", rep, err)
	}
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }

func TestServe(t *testing.T) {
	st, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	s, err := New(Options{Store: st})
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "nonsense"} {
		if err := s.Serve(t.Context(), addr, ServeOptions{}); err == nil {
			t.Errorf("%q was served without tokens", addr)
		}
	}
	if err := s.Serve(t.Context(), "127.0.0.1:0", ServeOptions{CertFile: filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("served without the TLS files")
	}
	ctx, cancel := context.WithCancel(t.Context())
	urls, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- s.Serve(ctx, "127.0.0.1:0", ServeOptions{Ready: func(u string) { urls <- u }})
	}()
	if resp, _ := ask(t, "GET", <-urls+"/api/whoami-v2", ""); resp.StatusCode != 200 {
		t.Errorf("whoami: %d", resp.StatusCode)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the server did not stop")
	}
}

// BenchmarkDownloads has 200 clients download one large file at once and
// reports how far the process's heap grew.
func BenchmarkDownloads(b *testing.B) {
	hs, s := newHub(b)
	ask(b, "POST", hs.URL+"/api/repos/create", `{"name":"k","organization":"n","type":"model"}`)
	repo, err := s.store.Repo(store.Model, "n/k")
	if err != nil {
		b.Fatal(err)
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	tmp, err := s.store.NewTemp()
	if err != nil {
		b.Fatal(err)
	}
	tmp.Write(data)
	if _, err := repo.PutLFS(tmp, ""); err != nil {
		b.Fatal(err)
	}
	ask(b, "POST", hs.URL+"/api/models/n/k/commit/main", fmt.Sprintf(`{"key":"header","value":{"summary":"s"}}`+"\n"+`{"key":"lfsFile","value":{"path":"big","algo":"sha256","oid":"%x"}}`, sha256.Sum256(data)))
	rss := func() float64 {
		b, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			return 0
		}
		var total, resident int
		fmt.Sscan(string(b), &total, &resident)
		return float64(resident*os.Getpagesize()) / (1 << 20)
	}
	b.SetBytes(200 * int64(len(data)))
	for b.Loop() {
		before := rss()
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				resp, err := http.Get(hs.URL + "/n/k/resolve/main/big")
				if err != nil {
					b.Error(err)
					return
				}
				defer resp.Body.Close()
				if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != int64(len(data)) {
					b.Errorf("%d bytes, %v", n, err)
				}
			})
		}
		wg.Wait()
		b.ReportMetric(rss()-before, "MiB-grown/op")
	}
}
