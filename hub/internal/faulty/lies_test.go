package faulty_test

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/thox-ai/thoxbuild/hub/bundle"
	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/internal/faulty"
	"github.com/thox-ai/thoxbuild/hub/internal/hubtest"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/hub/oci"
	"github.com/thox-ai/thoxbuild/hub/publish"
	"github.com/thox-ai/thoxbuild/hub/pull"
	"github.com/thox-ai/thoxbuild/hub/source"
)

// elsewhere takes everything and keeps nothing. It must never see the token.
func elsewhere(t *testing.T) string {
	var leaked atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			leaked.Store(true)
		}
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	t.Cleanup(func() {
		s.Close()
		if leaked.Load() {
			t.Error("the token was sent to another host")
		}
	})
	return s.URL
}

// lieRow publishes to and pulls from a Hub that lies. Whatever that leads to,
// the branch holds whole revisions only and nothing that is not as locked is
// installed; when the lies end, the same calls complete.
func lieRow(t *testing.T, seed uint64) (o outcome) {
	rng := rand.New(rand.NewPCG(seed, 15))
	h := newHub(t)
	liar := &faulty.Liar{Next: h, Seed: seed, Rate: 0.15, Elsewhere: elsewhere(t)}
	lied := connect(t, listen(t, liar), newMeter())
	cfg := client.Config{Endpoint: lied.Endpoint(), Token: client.NewToken("hf_secret"), Retry: client.Retry{Attempts: 1}}
	lied, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, v := range variants {
		hubtest.WriteVariant(t, dir, v, 1, sample(rng, v), nil)
	}
	for range 4 {
		if _, err := publish.Run(t.Context(), publish.Options{Client: lied, Repo: repoID, Dir: dir}); err != nil {
			o.reruns++
		}
		h.checkWhole(t)
	}
	r, err := publish.Run(t.Context(), publish.Options{Client: h.clean, Repo: repoID, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	// Told that a file differs, a publisher commits it again; so there may be
	// more commits than one, of which each is whole.
	if n := h.checkWhole(t); n < 2 {
		t.Errorf("%d commits on v1, want 2", n)
	}
	h.checkSound(t)
	dest := t.TempDir()
	o.reruns += pullLies(t, locked(r), dest, func() (source.Source, error) {
		return &source.Hub{Client: lied, Repo: theRepo(t), Commit: r.Revision}, nil
	}, &source.Hub{Client: h.clean, Repo: theRepo(t), Commit: r.Revision})
	o.faults = liar.Told()
	return o
}

// lieRegistryRow pulls from a registry that lies.
func lieRegistryRow(t *testing.T, seed uint64) (o outcome) {
	rng := rand.New(rand.NewPCG(seed, 16))
	reg, repo := inProcess(t)
	dir := t.TempDir()
	for _, v := range variants {
		hubtest.WriteVariant(t, dir, v, 1, sample(rng, v), nil)
	}
	b, err := bundle.Read(t.Context(), dir, bundle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	clean := address(t, listen(t, reg), repo)
	r, err := oci.Push(t.Context(), oci.PushOptions{Access: access(nil), Target: clean, Bundle: b})
	if err != nil {
		t.Fatal(err)
	}
	liar := &faulty.Liar{Next: reg, Seed: seed, Rate: 0.3, Elsewhere: elsewhere(t)}
	lied := address(t, listen(t, liar), repo)
	k := &lock.Kernel{Repo: r.Repo, Branch: r.Tag, Revision: r.Revision, Variants: r.Variants}
	open := func(tg oci.Target) (source.Source, error) {
		s, err := oci.Open(t.Context(), tg, access(nil))
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { s.Close() })
		return s, nil
	}
	honest, err := open(clean)
	if err != nil {
		t.Fatal(err)
	}
	o.reruns = pullLies(t, k, t.TempDir(), func() (source.Source, error) { return open(lied) }, honest)
	o.faults = liar.Told()
	return o
}

// pullLies pulls four times from a source that lies and then from one that
// does not. It returns how often the lies ended a pull.
func pullLies(t *testing.T, k *lock.Kernel, dest string, lied func() (source.Source, error), honest source.Source) (ended int) {
	for range 4 {
		src, err := lied()
		if err == nil {
			_, err = pull.Run(t.Context(), pull.Options{Source: src, Repo: theRepo(t), Lock: k, Dir: dest, Layout: pull.Plain})
		}
		if err != nil {
			ended++
		}
		installed(t, dest, k, false)
	}
	if _, err := pull.Run(t.Context(), pull.Options{Source: honest, Repo: theRepo(t), Lock: k, Dir: dest, Layout: pull.Plain}); err != nil {
		t.Errorf("after the lies: %v", err)
	}
	installed(t, dest, k, true)
	return ended
}
