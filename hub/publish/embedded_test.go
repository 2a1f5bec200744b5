package publish_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/internal/faulty"
	"github.com/thox-ai/thoxbuild/hub/internal/hubtest"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/hub/publish"
	"github.com/thox-ai/thoxbuild/hub/pull"
	"github.com/thox-ai/thoxbuild/hub/server"
	"github.com/thox-ai/thoxbuild/hub/source"
	"github.com/thox-ai/thoxbuild/hub/store"
	"github.com/thox-ai/thoxbuild/hub/verify"
)

// embedded is the real server on disk, with small limits so that LFS,
// multipart and paging all happen.
func embedded(t *testing.T) *server.Server {
	t.Helper()
	st, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	s, err := server.New(server.Options{Store: st, Threshold: 1024, PartSize: 20_000, PageSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func connect(t *testing.T, url string, attempts int) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Endpoint: url, Retry: client.Retry{Attempts: attempts, Base: time.Millisecond, Max: 2 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func locked(r *publish.Result) *lock.Kernel {
	return &lock.Kernel{Repo: r.Repo, Type: client.Kernel, Branch: r.Branch, Revision: r.Revision, Variants: r.Variants}
}

func check(t *testing.T, c *client.Client, k *lock.Kernel) {
	t.Helper()
	repo, err := client.ParseRepo(k.Type, k.Repo)
	if err != nil {
		t.Fatal(err)
	}
	src := &source.Hub{Client: c, Repo: repo, Commit: k.Revision}
	rep, err := verify.Run(t.Context(), src, verify.Options{Lock: k})
	if err != nil || !rep.OK() || len(rep.Variants) != len(k.Variants) {
		t.Fatalf("verify: %+v, %v", rep, err)
	}
	if _, err := pull.Run(t.Context(), pull.Options{Source: src, Repo: repo, Lock: k, Dir: t.TempDir()}); err != nil {
		t.Errorf("pull: %v", err)
	}
	pinned, _, err := lock.Pin(t.Context(), c, repo, k.Revision)
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range k.Variants {
		if pinned[name] != d {
			t.Errorf("pinned %s as %s, published %s", name, pinned[name], d)
		}
	}
}

// Publish, pin, verify, pull and publish again, against the embedded Hub.
func TestEmbeddedHub(t *testing.T) {
	s := httptest.NewServer(embedded(t))
	defer s.Close()
	c := connect(t, s.URL, 3)
	dir := t.TempDir()
	hubtest.WriteVariant(t, dir, hubtest.VariantA, 2, hubtest.Sample("a"), nil)
	hubtest.WriteVariant(t, dir, hubtest.VariantB, 2, hubtest.Sample("b"), nil)
	if err := os.WriteFile(dir+"/build/CARD.md", []byte("---\nlicense: mit\n---\n# demo\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []client.RepoType{client.Kernel, client.Model} {
		t.Run(string(kind), func(t *testing.T) {
			o := publish.Options{Client: c, Repo: "thox-ai/demo-" + string(kind), RepoType: kind, Dir: dir, Private: true}
			r, err := publish.Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if r.Status != publish.Uploaded || r.Commits != 2 {
				t.Errorf("%+v", r)
			}
			k := locked(r)
			k.Type = kind
			check(t, c, k)
			again, err := publish.Run(t.Context(), o)
			if err != nil || again.Status != publish.NoChanges || again.Revision != r.Revision || again.Sent != 0 {
				t.Errorf("again: %+v, %v", again, err)
			}
		})
	}
}

func TestEmbeddedPullRequest(t *testing.T) {
	s := httptest.NewServer(embedded(t))
	defer s.Close()
	c := connect(t, s.URL, 3)
	dir := t.TempDir()
	hubtest.WriteVariant(t, dir, hubtest.VariantA, 2, hubtest.Sample("a"), nil)
	o := publish.Options{Client: c, Repo: "thox-ai/demo", Dir: dir}
	if _, err := publish.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	hubtest.WriteVariant(t, dir, hubtest.VariantA, 2, hubtest.Sample("b"), nil)
	o.CreatePR = true
	r, err := publish.Run(t.Context(), o)
	if err != nil || r.Status != publish.PullRequestCreated || len(r.PullRequests) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	repo, _ := client.ParseRepo("", "thox-ai/demo")
	rep, err := verify.Run(t.Context(), &source.Hub{Client: c, Repo: repo, Commit: r.Revision}, verify.Options{})
	if err != nil || !rep.OK() || rep.Variants[hubtest.VariantA] != r.Variants[hubtest.VariantA] {
		t.Errorf("%+v, %v", rep, err)
	}
}

// Faults in front of the real server: what it keeps on disk must stand too.
func TestEmbeddedFaults(t *testing.T) {
	runs := 10
	if os.Getenv("THOXBUILD_TEST_FULL") == "1" {
		runs = 200
	}
	for seed := range runs {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inner := embedded(t)
			s := httptest.NewServer(&faulty.Handler{Next: inner, Seed: uint64(seed), Rate: 0.25})
			defer s.Close()
			clean := httptest.NewServer(inner)
			defer clean.Close()
			c := connect(t, s.URL, 4)
			dir := t.TempDir()
			hubtest.WriteVariant(t, dir, hubtest.VariantA, 1, hubtest.Sample("a"), nil)
			var r *publish.Result
			var err error
			for range 50 {
				if r, err = publish.Run(t.Context(), publish.Options{Client: c, Repo: "thox-ai/demo", Dir: dir}); err == nil {
					break
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			direct := connect(t, clean.URL, 1)
			check(t, direct, locked(r))
			repo, _ := client.ParseRepo("", "thox-ai/demo")
			history, err := direct.Commits(t.Context(), repo, "v1")
			if err != nil || len(history) != 2 {
				t.Errorf("seed %d: history %v, %v", seed, history, err)
			}
		})
	}
}

// Eight publishers of different variants to one branch.
func TestEmbeddedRace(t *testing.T) {
	s := httptest.NewServer(embedded(t))
	defer s.Close()
	c := connect(t, s.URL, 3)
	var wg sync.WaitGroup
	for _, cu := range []string{"cu126", "cu128", "cu129", "cu130", "cu131", "cu132", "cu133", "cu134"} {
		name := "torch213-cxx11-" + cu + "-x86_64-linux"
		dir := t.TempDir()
		hubtest.WriteVariant(t, dir, name, 1, hubtest.Sample(cu), nil)
		wg.Go(func() {
			if _, err := publish.Run(context.Background(), publish.Options{Client: c, Repo: "thox-ai/demo", Dir: dir}); err != nil {
				t.Errorf("%s: %v", cu, err)
			}
		})
	}
	wg.Wait()
	repo, _ := client.ParseRepo("", "thox-ai/demo")
	refs, err := c.Refs(t.Context(), repo, false)
	if err != nil {
		t.Fatal(err)
	}
	head, _ := refs.Branch("v1")
	rep, err := verify.Run(t.Context(), &source.Hub{Client: c, Repo: repo, Commit: head}, verify.Options{})
	if err != nil || !rep.OK() || len(rep.Variants) != 8 {
		t.Errorf("%+v, %v", rep, err)
	}
}

func TestEmbeddedNeedsWriteToken(t *testing.T) {
	st, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	srv, err := server.New(server.Options{Store: st, Tokens: []server.Token{{Secret: "hf_read", User: "r", Role: store.Read}, {Secret: "hf_write", User: "thox-ai", Role: store.Write}}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(srv)
	defer s.Close()
	dir := t.TempDir()
	hubtest.WriteVariant(t, dir, hubtest.VariantA, 1, hubtest.Sample("a"), nil)
	// The one that may write comes last: once the variant is there, a reader has
	// nothing left to write either.
	for _, token := range []string{"", "hf_read", "hf_bogus", "hf_write"} {
		r, err := publish.Run(t.Context(), publish.Options{Endpoint: s.URL, Token: client.NewToken(token), Repo: "thox-ai/demo", Dir: dir})
		if (err == nil) != (token == "hf_write") {
			t.Errorf("token %q: %+v, %v", token, r, err)
		}
		if err != nil && (strings.Contains(err.Error(), "hf_") && token != "" && strings.Contains(err.Error(), token)) {
			t.Errorf("the token shows in %v", err)
		}
		if err != nil && !errors.Is(err, client.ErrUnauthorized) && !errors.Is(err, client.ErrForbidden) {
			t.Errorf("token %q: %v", token, err)
		}
	}
}
