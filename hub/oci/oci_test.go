package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/thox-ai/thoxbuild/hub/bundle"
	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/internal/hubtest"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/hub/pull"
	"github.com/thox-ai/thoxbuild/hub/source"
	"github.com/thox-ai/thoxbuild/hub/verify"
)

var fast = Access{Wait: 2 * time.Millisecond, Settle: 20 * time.Millisecond}

func inProcess() http.Handler {
	return registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true))
}

// registries runs a test against the library's registry in process and the
// real one.
func registries(t *testing.T, f func(t *testing.T, host string)) {
	t.Run("in process", func(t *testing.T) {
		s := httptest.NewServer(inProcess())
		defer s.Close()
		f(t, strings.TrimPrefix(s.URL, "http://"))
	})
	t.Run("docker-registry", func(t *testing.T) {
		host := hubtest.DockerRegistry(t)
		if host == "" {
			t.Skip("needs docker-registry on the PATH (the Debian package of that name)")
		}
		f(t, host)
	})
}

func target(t testing.TB, s string) Target {
	t.Helper()
	tg, err := ParseTarget(s)
	if err != nil {
		t.Fatal(err)
	}
	return tg
}

func read(t testing.TB, dir string) *bundle.Bundle {
	t.Helper()
	b, err := bundle.Read(t.Context(), dir, bundle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func twoVariants(t testing.TB, seed string) string {
	dir := t.TempDir()
	hubtest.WriteVariant(t, dir, hubtest.VariantA, 2, hubtest.Sample("a"+seed), nil)
	hubtest.WriteVariant(t, dir, hubtest.VariantB, 2, hubtest.Sample("b"+seed), nil)
	return dir
}

func TestParseTarget(t *testing.T) {
	for in, want := range map[string]string{
		"oci://127.0.0.1:5000/a/b":                                "oci://127.0.0.1:5000/a/b",
		"oci://127.0.0.1:5000/a/b:v2":                             "oci://127.0.0.1:5000/a/b:v2",
		"oci://r.example.org/a@sha256:" + strings.Repeat("a", 64): "oci://r.example.org/a@sha256:" + strings.Repeat("a", 64),
		"a/b":                              "",
		"oci://a/b":                        "",
		"oci://host.example":               "",
		"oci://u:p@host.example/a":         "",
		"oci://127.0.0.1:5000/A":           "",
		"oci://127.0.0.1:5000/a:b:c":       "",
		"oci://127.0.0.1:5000/a@sha256:12": "",
	} {
		got, err := ParseTarget(in)
		if (err == nil) != (want != "") || err == nil && got.String() != want {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
}

// A layer's bytes follow from the files alone.
func TestLayerIsDeterministic(t *testing.T) {
	var digests []string
	for range 2 {
		b := read(t, twoVariants(t, ""))
		now := time.Now().Add(-time.Hour)
		for _, f := range b.Variants[0].Files {
			p := filepath.Join(b.Variants[0].Dir, f.Path)
			if err := errors.Join(os.Chtimes(p, now, now), os.Chmod(p, 0o755)); err != nil {
				t.Fatal(err)
			}
		}
		l, err := writeLayer(t.Context(), t.TempDir(), b.Variants[0].Files)
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, l.digest.String())
	}
	if digests[0] != digests[1] {
		t.Error(digests)
	}
}

// Push, push again, pull one variant, verify, and replace one variant.
func TestRoundTrip(t *testing.T) {
	registries(t, func(t *testing.T, host string) {
		dir := twoVariants(t, "")
		tg := target(t, "oci://"+host+"/thox-ai/demo")
		o := PushOptions{Access: fast, Target: tg, Bundle: read(t, dir), Attachments: []Attachment{{Variant: hubtest.VariantA, ArtifactType: ABIReportType, Data: []byte(`{"findings":[]}`)}}}
		r, err := Push(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Changed || r.Tag != "v2" || len(r.Variants) != 2 || r.Sent == 0 {
			t.Errorf("%+v", r)
		}
		o.Bundle = read(t, dir)
		o.Attachments = nil
		again, err := Push(t.Context(), o)
		if err != nil || again.Changed || again.Revision != r.Revision || again.Sent != 0 {
			t.Errorf("again: %+v, %v", again, err)
		}

		tg.Tag = "v2"
		k := &lock.Kernel{Repo: r.Repo, Branch: "v2", Revision: r.Revision, Variants: r.Variants}
		pinned := tg
		pinned.Digest = r.Revision
		src, err := Open(t.Context(), pinned, fast, hubtest.VariantA)
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close()
		repo, _ := client.ParseRepo("", "thox-ai/demo")
		cache := t.TempDir()
		res, err := pull.Run(t.Context(), pull.Options{Source: src, Repo: repo, Lock: k, Dir: cache, Variants: []string{hubtest.VariantA}})
		if err != nil || len(res.Variants) != 1 {
			t.Fatalf("%+v, %v", res, err)
		}
		if _, err := source.OpenCache(cache, repo, "v2"); err != nil {
			t.Error(err)
		}
		if got := entries(t, src.tmp); len(got) != 1 {
			t.Errorf("unpacked %q for one variant", got)
		}
		refs, err := src.Referrers(hubtest.VariantA, ABIReportType)
		if err != nil || len(refs) != 1 || string(refs[0].Data) != `{"findings":[]}` {
			t.Errorf("referrers %+v, %v", refs, err)
		}

		// A variant is replaced; the other stays, and the pin sees the move.
		one := t.TempDir()
		hubtest.WriteVariant(t, one, hubtest.VariantA, 2, hubtest.Sample("new"), nil)
		moved, err := Push(t.Context(), PushOptions{Access: fast, Target: tg, Bundle: read(t, one)})
		if err != nil || len(moved.Kept) != 1 || moved.Kept[0] != hubtest.VariantB {
			t.Fatalf("%+v, %v", moved, err)
		}
		all, err := Open(t.Context(), pinned, fast)
		if err != nil {
			t.Fatal(err)
		}
		defer all.Close()
		rep, err := verify.Run(t.Context(), all, verify.Options{Lock: k})
		if err != nil || len(rep.Variants) != 2 {
			t.Fatalf("%+v, %v", rep, err)
		}
		if len(rep.Problems) != 2 || rep.Problems[0].Kind != verify.MovedBranch || rep.Problems[1].Kind != verify.ChangedVariant {
			t.Errorf("%+v", rep.Problems)
		}
	})
}

func entries(t *testing.T, dir string) (out []string) {
	es, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		out = append(out, e.Name())
	}
	return out
}

// Layers that another repository of the registry has are mounted, not sent.
func TestMount(t *testing.T) {
	registries(t, func(t *testing.T, host string) {
		dir := twoVariants(t, "")
		noise := make([]byte, 200_000)
		rand.NewChaCha8([32]byte{}).Read(noise)
		files := hubtest.Sample("a")
		files["_demo.abi3.so"] = string(noise)
		hubtest.WriteVariant(t, dir, hubtest.VariantA, 2, files, nil)
		first, err := Push(t.Context(), PushOptions{Access: fast, Target: target(t, "oci://"+host+"/team/staging"), Bundle: read(t, dir)})
		if err != nil {
			t.Fatal(err)
		}
		second, err := Push(t.Context(), PushOptions{Access: fast, Target: target(t, "oci://"+host+"/team/release"), Bundle: read(t, dir), MountFrom: "team/staging"})
		if err != nil {
			t.Fatal(err)
		}
		if second.Revision != first.Revision {
			t.Error("the same variants have another index")
		}
		if second.Sent >= first.Sent/2 && !strings.Contains(t.Name(), "process") { // the in-process registry shares blobs anyway
			t.Errorf("sent %d bytes with a mount, %d without", second.Sent, first.Sent)
		}
	})
}

// gate stands in front of a registry and lets a test break requests.
type gate struct {
	next http.Handler
	mu   sync.Mutex
	seen map[string]int
	hit  func(r *http.Request, n int, w http.ResponseWriter) bool
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	key := r.Method + " " + class(r.URL.Path)
	g.seen[key]++
	n := g.seen[key]
	g.mu.Unlock()
	if g.hit(r, n, w) {
		return
	}
	g.next.ServeHTTP(w, r)
}

func class(path string) string {
	for _, c := range []string{"/blobs/uploads/", "/blobs/", "/manifests/", "/referrers/"} {
		if strings.Contains(path, c) {
			return c
		}
	}
	return path
}

// What registries do to a push, each on the first or every second request of
// its kind; the push must arrive whole.
func TestUnfriendlyRegistry(t *testing.T) {
	status := func(code int, header ...string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
		}
	}
	half := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength/2)
		panic(http.ErrAbortHandler)
	}
	for name, how := range map[string]func(http.ResponseWriter, *http.Request){
		"429 without Retry-After": status(429),
		"429 with Retry-After":    status(429, "Retry-After", "0"),
		"429 with a date":         status(429, "Retry-After", time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat)),
		"503":                     status(503),
		"500":                     status(500),
		"408":                     status(408),
		"cut in the body":         half,
		"416":                     status(416, "Range", "0-5"),
	} {
		t.Run(name, func(t *testing.T) {
			if name == "429 with a date" && testing.Short() {
				t.Skip("waits whole seconds")
			}
			every := 2
			if strings.Contains(name, "date") {
				every = 7
			}
			g := &gate{next: inProcess(), seen: map[string]int{}}
			g.hit = func(r *http.Request, n int, w http.ResponseWriter) bool {
				if n%every != 1 || r.URL.Path == "/v2/" || name == "416" && r.Method != http.MethodPatch {
					return false
				}
				how(w, r)
				return true
			}
			s := httptest.NewServer(g)
			defer s.Close()
			tg := target(t, "oci://"+strings.TrimPrefix(s.URL, "http://")+"/thox-ai/demo:v2")
			r, err := Push(t.Context(), PushOptions{Access: fast, Target: tg, Bundle: read(t, twoVariants(t, ""))})
			if err != nil {
				t.Fatal(err)
			}
			g.hit = func(*http.Request, int, http.ResponseWriter) bool { return false }
			checkTag(t, tg, r)
		})
	}
}

func checkTag(t *testing.T, tg Target, r *Result) {
	t.Helper()
	src, err := Open(t.Context(), tg, fast)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	rep, err := verify.Run(t.Context(), src, verify.Options{Lock: &lock.Kernel{Repo: r.Repo, Branch: r.Tag, Revision: r.Revision, Variants: r.Variants}})
	if err != nil || !rep.OK() || len(rep.Variants) != len(r.Variants) {
		t.Errorf("%+v, %v", rep, err)
	}
}

// A token that expires between and within uploads: 401 after the body was
// read, and the body must be sent again whole.
func TestExpiredToken(t *testing.T) {
	inner := inProcess()
	var mu sync.Mutex
	issued, uses := 0, 0
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			mu.Lock()
			issued++
			uses = 0
			n := issued
			mu.Unlock()
			fmt.Fprintf(w, `{"token":"t%d"}`, n)
			return
		}
		mu.Lock()
		uses++
		good := r.Header.Get("Authorization") == fmt.Sprintf("Bearer t%d", issued) && uses < 4
		mu.Unlock()
		if !good {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="test"`, s.URL))
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	defer s.Close()
	tg := target(t, "oci://"+strings.TrimPrefix(s.URL, "http://")+"/thox-ai/demo:v2")
	a := fast
	a.Jobs = 1
	r, err := Push(t.Context(), PushOptions{Access: a, Target: tg, Bundle: read(t, twoVariants(t, ""))})
	if err != nil {
		t.Fatal(err)
	}
	if issued < 3 {
		t.Errorf("only %d tokens were issued; the test did not bite", issued)
	}
	plain := httptest.NewServer(inner)
	defer plain.Close()
	checkTag(t, target(t, "oci://"+strings.TrimPrefix(plain.URL, "http://")+"/thox-ai/demo:v2"), r)
}

// Denied is denied at once; an endless rate limit ends; nothing is tagged.
func TestRefusals(t *testing.T) {
	for code, most := range map[int]int{403: 1, 429: 60} {
		g := &gate{next: inProcess(), seen: map[string]int{}}
		calls := 0
		var mu sync.Mutex
		g.hit = func(r *http.Request, n int, w http.ResponseWriter) bool {
			if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/manifests/v2") {
				return false
			}
			mu.Lock()
			calls++
			mu.Unlock()
			w.WriteHeader(code)
			return true
		}
		s := httptest.NewServer(g)
		a := Access{Wait: 50 * time.Microsecond}
		_, err := Push(t.Context(), PushOptions{Access: a, Target: target(t, "oci://"+strings.TrimPrefix(s.URL, "http://")+"/thox-ai/demo:v2"), Bundle: read(t, twoVariants(t, ""))})
		s.Close()
		if err == nil || calls > most || calls == 0 {
			t.Errorf("%d: %d calls, %v", code, calls, err)
		}
	}
}

// Eight publishers of different variants to one tag lose nothing.
func TestTagRace(t *testing.T) {
	s := httptest.NewServer(inProcess())
	defer s.Close()
	tg := target(t, "oci://"+strings.TrimPrefix(s.URL, "http://")+"/thox-ai/demo:v1")
	var wg sync.WaitGroup
	var mu sync.Mutex
	done := map[string]lock.Digest{}
	for i := range 8 {
		dir := t.TempDir()
		name := fmt.Sprintf("torch213-cxx11-cu13%d-x86_64-linux", i)
		hubtest.WriteVariant(t, dir, name, 1, hubtest.Sample(name), nil)
		b := read(t, dir)
		wg.Go(func() {
			a := fast
			a.Settle = 200 * time.Millisecond
			r, err := Push(context.Background(), PushOptions{Access: a, Target: tg, Bundle: b})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for n, d := range r.Variants {
				done[n] = d
			}
		})
	}
	wg.Wait()
	src, err := Open(t.Context(), tg, fast)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	for n := range done {
		if src.variants[n] == nil {
			t.Errorf("%s was published and is gone", n)
		}
	}
	if len(done) != 8 {
		t.Errorf("%d of 8 published", len(done))
	}
}

// A registry that serves another layer or config than the digest says.
func TestLyingRegistry(t *testing.T) {
	inner := inProcess()
	lie := false
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !lie || r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
			inner.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		inner.ServeHTTP(rec, r)
		b := rec.Body.Bytes()
		if len(b) > 0 {
			b[len(b)-1] ^= 1
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(b)
	}))
	defer s.Close()
	tg := target(t, "oci://"+strings.TrimPrefix(s.URL, "http://")+"/thox-ai/demo:v2")
	if _, err := Push(t.Context(), PushOptions{Access: fast, Target: tg, Bundle: read(t, twoVariants(t, ""))}); err != nil {
		t.Fatal(err)
	}
	src, err := Open(t.Context(), tg, fast)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	lie = true
	repo, _ := client.ParseRepo("", "thox-ai/demo")
	dir := t.TempDir()
	if _, err := pull.Run(t.Context(), pull.Options{Source: src, Repo: repo, Dir: dir, Layout: pull.Plain}); err == nil {
		t.Error("a changed layer was installed")
	}
	if got := entries(t, filepath.Join(dir, "build")); len(got) != 0 {
		t.Errorf("installed %q", got)
	}
	if _, err := Open(t.Context(), tg, fast); err == nil {
		t.Error("a changed config was read")
	}
}
