package publish

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/internal/hubtest"
	"github.com/thox-ai/thoxbuild/hub/internal/memhub"
	"github.com/thox-ai/thoxbuild/manifests"
)

const (
	variantA = hubtest.VariantA
	variantB = hubtest.VariantB
	repoID   = "thox-ai/demo"
	repoKey  = "kernels/thox-ai/demo"
)

var (
	writeVariant = hubtest.WriteVariant
	sample       = hubtest.Sample
)

type server struct {
	*memhub.Hub
	url string
}

func serve(t testing.TB, h *memhub.Hub) server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return server{h, s.URL}
}

// testClient retries fast.
func testClient(t testing.TB, url string, cfg client.Config) *client.Client {
	t.Helper()
	cfg.Endpoint = url
	if cfg.Retry == (client.Retry{}) {
		cfg.Retry = client.Retry{Base: time.Millisecond, Max: 4 * time.Millisecond}
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func options(t testing.TB, s server, dir string) Options {
	return Options{Client: testClient(t, s.url, client.Config{}), Repo: repoID, Dir: dir}
}

func mustRun(t testing.TB, o Options) *Result {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func branchFiles(h *memhub.Hub, branch string) []string {
	c := h.Head(repoKey, branch)
	if c == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(c.Files))
}

func TestPublishFirst(t *testing.T) {
	dir := t.TempDir()
	writeVariant(t, dir, variantA, 2, sample("a"), nil)
	writeVariant(t, dir, variantB, 2, sample("b"), nil)
	if err := os.WriteFile(filepath.Join(dir, "build", "CARD.md"), []byte("# demo\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "benchmarks"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"benchmark_rms.py", "helper.py"} {
		if err := os.WriteFile(filepath.Join(dir, "benchmarks", f), []byte("pass\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "build", variantA, "__pycache__"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "build", variantA, "__pycache__", "x.pyc"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := serve(t, memhub.New())
	o := options(t, s, dir)

	plan := o
	plan.DryRun = true
	r := mustRun(t, plan)
	if r.Status != Planned || s.Head(repoKey, "main") != nil {
		t.Fatalf("a dry run has status %s and made the repository: %v", r.Status, s.Head(repoKey, "main"))
	}

	r = mustRun(t, o)
	head := s.Head(repoKey, "v2")
	if head == nil || r.Revision != head.ID || r.Status != Uploaded {
		t.Fatalf("result %+v, head %v", r, head)
	}
	want := []string{".gitattributes", "benchmarks/benchmark_rms.py"}
	for _, v := range []string{variantA, variantB} {
		for p := range sample("") {
			want = append(want, "build/"+v+"/"+p)
		}
		want = append(want, "build/"+v+"/metadata.json")
	}
	slices.Sort(want)
	if got := branchFiles(s.Hub, "v2"); !slices.Equal(got, want) {
		t.Errorf("v2 holds\n%q, want\n%q", got, want)
	}
	if n := len(s.History(repoKey, "v2")); n != 2 {
		t.Errorf("v2 has %d commits, want the initial one and one publish", n)
	}
	if got := string(s.Head(repoKey, "main").Files["README.md"].Data); got != "# demo\n" {
		t.Errorf("main's README.md is %q", got)
	}
	if !head.Files["build/"+variantA+"/_demo.abi3.so"].LFS {
		t.Error("the large file is not in LFS")
	}

	before := s.Received
	again := mustRun(t, o)
	if again.Status != NoChanges || again.Revision != r.Revision || again.Sent != 0 || s.Received != before {
		t.Errorf("publishing again: %+v, %d bytes sent", again, s.Received-before)
	}
	if again.Skipped == 0 {
		t.Error("nothing counted as skipped")
	}
}

// A new version branch starts as a copy of main; what it inherits must go.
func TestNewBranchDropsInheritedVariants(t *testing.T) {
	h := memhub.New()
	h.Put(repoKey, "main", func(f map[string]memhub.File) {
		f["build/torch29-cxx11-cu126-x86_64-linux/metadata.json"] = memhub.File{Data: []byte(`{"version":1}`)}
		f["build/torch29-cxx11-cu126-x86_64-linux/_x.so"] = memhub.File{Data: []byte("old")}
		f["build/"+variantA+"/stale.py"] = memhub.File{Data: []byte("old")}
		f["build/loose.txt"] = memhub.File{Data: []byte("old")}
		f["benchmarks/benchmark_old.py"] = memhub.File{Data: []byte("old")}
		f["README.md"] = memhub.File{Data: []byte("card")}
	})
	dir := t.TempDir()
	writeVariant(t, dir, variantA, 2, sample("a"), nil)
	s := serve(t, h)
	mustRun(t, options(t, s, dir))
	for _, p := range branchFiles(h, "v2") {
		if strings.HasPrefix(p, "build/") && !strings.HasPrefix(p, "build/"+variantA+"/") || strings.Contains(p, "stale") || strings.Contains(p, "benchmark_old") {
			t.Errorf("v2 inherited %s", p)
		}
	}
	if _, ok := h.Head(repoKey, "main").Files["build/loose.txt"]; !ok {
		t.Error("main was changed")
	}
}

// A publisher that died between making the branch and its commit leaves a
// branch full of another version; the next run cleans that up, and only that.
func TestAbandonedBranch(t *testing.T) {
	h := memhub.New()
	c := h.Put(repoKey, "main", func(f map[string]memhub.File) {
		f["build/torch29-cxx11-cu126-x86_64-linux/metadata.json"] = memhub.File{Data: []byte(`{"version":1}`)}
		f["build/torch28-cxx11-cu126-x86_64-linux/metadata.json"] = memhub.File{Data: []byte(`{"version":2}`)}
	})
	h.With(func() { h.Repos[repoKey].Branches["v2"] = c.ID })
	h.Put(repoKey, "main", func(f map[string]memhub.File) { f["README.md"] = memhub.File{Data: []byte("x")} })
	dir := t.TempDir()
	writeVariant(t, dir, variantA, 2, sample("a"), nil)
	mustRun(t, options(t, serve(t, h), dir))
	got := strings.Join(branchFiles(h, "v2"), " ")
	if strings.Contains(got, "torch29") || !strings.Contains(got, "torch28") {
		t.Errorf("v2 holds %s; want the variant of version 1 gone and the one of version 2 kept", got)
	}
}

func TestReplaceDeletesStaleFilesOnly(t *testing.T) {
	h := memhub.New()
	s := serve(t, h)
	dir := t.TempDir()
	writeVariant(t, dir, variantA, 1, sample("a"), nil)
	writeVariant(t, dir, variantB, 1, sample("b"), nil)
	o := options(t, s, dir)
	mustRun(t, o)

	files := sample("changed")
	delete(files, "layers/rms.py")
	files["layers/new.py"] = "x = 1\n"
	writeVariant(t, dir, variantA, 1, files, nil)
	o.Variants = []string{"torch213-*"}
	r := mustRun(t, o)
	got := branchFiles(h, "v1")
	if slices.Contains(got, "build/"+variantA+"/layers/rms.py") || !slices.Contains(got, "build/"+variantA+"/layers/new.py") {
		t.Errorf("v1 holds %q", got)
	}
	if !slices.Contains(got, "build/"+variantB+"/layers/rms.py") {
		t.Error("the other variant was touched")
	}
	if len(r.Variants) != 1 || r.Plan.Variants[0].State != "replaced" {
		t.Errorf("result %+v", r)
	}
	if r.Skipped == 0 {
		t.Error("unchanged files were sent again")
	}

	o.KeepPublished = true
	writeVariant(t, dir, variantA, 1, sample("third"), nil)
	if _, err := Run(t.Context(), o); !errors.Is(err, ErrConflict) {
		t.Errorf("KeepPublished: %v", err)
	}
}

// Batches: every commit shows each variant whole or not at all, and one that
// needs several commits has no metadata until it is whole.
func TestBatchesShowNoHalfVariant(t *testing.T) {
	h := memhub.New()
	h.PageSize = 3
	s := serve(t, h)
	dir := t.TempDir()
	big := sample("big")
	for i := range 20 {
		big[fmt.Sprintf("data/%02d.txt", i)] = fmt.Sprint(i)
	}
	writeVariant(t, dir, variantA, 1, sample("a"), nil)
	writeVariant(t, dir, variantB, 1, big, nil)
	o := options(t, s, dir)
	o.batch = limits{ops: 8}
	mustRun(t, o)
	for i := range big {
		big[i] += "2"
	}
	writeVariant(t, dir, variantB, 1, big, nil)
	writeVariant(t, dir, variantA, 1, sample("a2"), nil)
	r := mustRun(t, o)
	if r.Commits < 4 {
		t.Errorf("%d commits", r.Commits)
	}
	for _, c := range h.History(repoKey, "v1") {
		for _, v := range []string{variantA, variantB} {
			checkWhole(t, c, v)
		}
	}
	if c := h.Head(repoKey, "v1"); c.Files["build/"+variantB+"/metadata.json"].Data == nil {
		t.Error("the metadata is missing at the end")
	}
}

// checkWhole fails if a variant with metadata is not what the metadata lists.
func checkWhole(t testing.TB, c *memhub.Commit, variant string) {
	t.Helper()
	prefix := "build/" + variant + "/"
	raw, ok := c.Files[prefix+"metadata.json"]
	if !ok {
		return
	}
	m, err := manifests.ParseMetadata(raw.Data)
	if err != nil {
		t.Errorf("commit %s: %v", c.ID, err)
		return
	}
	got := &manifests.Digest{Algorithm: manifests.SHA256, Files: map[string]string{}}
	for p, f := range c.Files {
		if rel, ok := strings.CutPrefix(p, prefix); ok && !manifests.SkipDigest(rel) {
			sum := sha256.Sum256(f.Data)
			got.Files[rel] = base64.StdEncoding.EncodeToString(sum[:])
		}
	}
	if d := m.Digest.Compare(got); len(d) > 0 {
		t.Errorf("commit %s (%s) shows a half-published %s: %v", c.ID, c.Title, variant, d)
	}
}

func TestCreatePR(t *testing.T) {
	h := memhub.New()
	s := serve(t, h)
	dir := t.TempDir()
	writeVariant(t, dir, variantA, 1, sample("a"), nil)
	o := options(t, s, dir)
	mustRun(t, o)
	head := h.Head(repoKey, "v1").ID
	writeVariant(t, dir, variantA, 1, sample("b"), nil)
	o.CreatePR = true
	o.batch = limits{ops: 2}
	r := mustRun(t, o)
	if r.Status != PullRequestCreated || len(r.PullRequests) != 1 || !strings.HasSuffix(r.PullRequests[0].URL, "/discussions/1") {
		t.Errorf("%+v", r)
	}
	if h.Head(repoKey, "v1").ID != head {
		t.Error("the branch itself was changed")
	}
	h.With(func() {
		repo := h.Repos[repoKey]
		if len(repo.PRs) != 1 {
			t.Fatalf("%d pull requests", len(repo.PRs))
		}
		checkWhole(t, repo.Commits[repo.PRs[0]], variantA)
	})
}

// The token reaches the Hub and no other place.
func TestTokenStaysInside(t *testing.T) {
	const secret = "hf_verysecrettoken"
	h := memhub.New()
	h.Token = secret
	h.ChunkSize = 10_000
	var log bytes.Buffer
	var mu sync.Mutex
	fails := 0
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r) // answers 400 to any Authorization on a presigned address
	}))
	defer store.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		fails++
		n := fails
		mu.Unlock()
		if n%5 == 0 && !strings.Contains(r.URL.Path, "/store/") {
			// A server that quotes the request in its error.
			http.Error(w, fmt.Sprintf(`{"error":"overloaded; you sent %s"}`, r.Header.Get("Authorization")), http.StatusServiceUnavailable)
			return
		}
		h.ServeHTTP(w, r)
	}))
	defer s.Close()
	dir := t.TempDir()
	writeVariant(t, dir, variantA, 1, sample("a"), nil)
	logf := func(f string, a ...any) { mu.Lock(); fmt.Fprintf(&log, f+"\n", a...); mu.Unlock() }
	c := testClient(t, s.URL, client.Config{Token: client.NewToken(secret), Log: logf})
	o := Options{Client: c, Repo: repoID, Dir: dir, Log: logf, Token: client.NewToken(secret)}
	r := mustRun(t, o)
	fmt.Fprintf(&log, "%v %+v %#v %s", r, r, o.Token, o.Token)
	bad := testClient(t, s.URL, client.Config{Token: client.NewToken("hf_wrongsecret"), Log: logf, Retry: client.Retry{Attempts: 1}})
	o.Client = bad
	o.Repo = "thox-ai/other"
	_, err := Run(t.Context(), o)
	fmt.Fprintf(&log, "%v", err)
	for _, s := range []string{secret, "hf_wrongsecret", "very-secret"} {
		if strings.Contains(log.String(), s) {
			t.Errorf("%q shows in:\n%s", s, log.String())
		}
	}
	if !strings.Contains(log.String(), "overloaded") {
		t.Error("the test provoked no error to look at")
	}
}
