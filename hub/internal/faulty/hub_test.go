package faulty_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/internal/hubtest"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/hub/publish"
	"github.com/thox-ai/thoxbuild/hub/server"
	"github.com/thox-ai/thoxbuild/hub/source"
	"github.com/thox-ai/thoxbuild/hub/store"
	"github.com/thox-ai/thoxbuild/hub/verify"
)

const repoID = "thox-ai/demo"

// hub is the embedded Hub on disk, with limits so small that LFS, parts and
// pages all happen.
type hub struct {
	*server.Server
	store *store.Store
	// clean talks to it without faults.
	clean *client.Client
}

func newHub(t *testing.T) *hub {
	st, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	s, err := server.New(server.Options{Store: st, Threshold: 1024, PartSize: 20_000, PageSize: 5})
	if err != nil {
		t.Fatal(err)
	}
	h := &hub{Server: s, store: st}
	h.clean = connect(t, listen(t, s), nil)
	return h
}

func connect(t *testing.T, addr string, m *meter) *client.Client {
	cfg := client.Config{Endpoint: "http://" + addr, Retry: client.Retry{Attempts: 4, Base: time.Millisecond, Max: 2 * time.Millisecond}}
	if m != nil {
		cfg.Transport = m
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func theRepo(t *testing.T) client.Repo {
	r, err := client.ParseRepo(client.Kernel, repoID)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// checkWhole verifies every commit of the branch, each of which holds all
// variants or none, and counts them.
func (h *hub) checkWhole(t *testing.T) int {
	t.Helper()
	commits, err := h.clean.Commits(t.Context(), theRepo(t), "v1")
	if err != nil {
		return 0 // not published at all yet
	}
	for _, c := range commits {
		r, err := verify.Run(t.Context(), &source.Hub{Client: h.clean, Repo: theRepo(t), Commit: c.ID}, verify.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !r.OK() || len(r.Variants) != 0 && len(r.Variants) != len(variants) {
			t.Errorf("commit %s is half published: %d variants, %v", c.ID, len(r.Variants), r.Problems)
		}
	}
	return len(commits)
}

func (h *hub) checkSound(t *testing.T) {
	t.Helper()
	rep, err := h.store.Fsck(t.Context())
	if err != nil || len(rep.Findings) > 0 {
		t.Errorf("fsck: %+v, %v", rep, err)
	}
}

func locked(r *publish.Result) *lock.Kernel {
	return &lock.Kernel{Repo: r.Repo, Type: client.Kernel, Branch: r.Branch, Revision: r.Revision, Variants: r.Variants}
}

// publishRow publishes two generations of two variants. After every attempt
// nothing may be half published; a rerun completes; no commit is made twice;
// and what was confirmed is not sent again.
func publishRow(faults between) func(*testing.T, uint64) outcome {
	return func(t *testing.T, seed uint64) (o outcome) {
		rng := rand.New(rand.NewPCG(seed, 11))
		h := newHub(t)
		addr, hits := faults(t, h, seed)
		m := newMeter()
		c := connect(t, addr, m)
		for generation := range 2 {
			dir := t.TempDir()
			for _, v := range variants {
				files := sample(rng, fmt.Sprint(v, generation))
				hubtest.WriteVariant(t, dir, v, 1, files, nil)
			}
			r := h.persist(t, c, m, dir, &o)
			if n := h.checkWhole(t); n != 2+generation {
				t.Errorf("generation %d: %d commits on v1, want %d", generation, n, 2+generation)
			}
			rep, err := verify.Run(t.Context(), &source.Hub{Client: h.clean, Repo: theRepo(t), Commit: r.Revision}, verify.Options{Lock: locked(r)})
			if err != nil || !rep.OK() {
				t.Errorf("generation %d: %+v, %v", generation, rep, err)
			}
			again, err := publish.Run(t.Context(), publish.Options{Client: h.clean, Repo: repoID, Dir: dir})
			if err != nil || again.Status != publish.NoChanges {
				t.Errorf("generation %d: the rerun left something to do: %+v, %v", generation, again, err)
			}
		}
		h.checkSound(t)
		for _, p := range m.problems {
			t.Error(p)
		}
		o.faults, o.sent = hits(), m.total()
		o.payload = h.objects(t)
		return o
	}
}

// persist publishes until it works.
func (h *hub) persist(t *testing.T, c *client.Client, m *meter, dir string, o *outcome) *publish.Result {
	t.Helper()
	var err error
	for range tries {
		var r *publish.Result
		ctx, end := life(t)
		r, err = publish.Run(ctx, publish.Options{Client: c, Repo: repoID, Dir: dir})
		if end(); err == nil {
			return r
		}
		if errors.Is(err, publish.ErrConflict) {
			t.Fatalf("a conflict with nobody: %v", err)
		}
		h.checkWhole(t)
		o.reruns++
		m.nextRun()
	}
	t.Fatalf("no rerun completes: %v", err)
	return nil
}

// objects is the size of all LFS objects.
func (h *hub) objects(t *testing.T) int64 {
	rep, err := h.store.Fsck(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return rep.LFSBytes
}

// raceRow lets publishers of one variant each meet on a branch that is there.
// All get in, each by one commit; of those that publish the same variant with
// other content, the first gets in and the others are told.
func raceRow(n int) func(*testing.T, uint64) outcome {
	return func(t *testing.T, seed uint64) (o outcome) {
		rng := rand.New(rand.NewPCG(seed, 12))
		h := newHub(t)
		addr := listen(t, h)
		same := seed%4 == 3
		var wg sync.WaitGroup
		var mu sync.Mutex
		won, lost := 0, 0
		if _, err := h.clean.CreateRepo(t.Context(), theRepo(t), false); err != nil {
			t.Fatal(err)
		}
		if err := h.clean.CreateBranch(t.Context(), theRepo(t), "v1", ""); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			name := fmt.Sprintf("torch213-cxx11-cu13%d-x86_64-linux", i)
			if same {
				name = hubtest.VariantA
			}
			dir := t.TempDir()
			hubtest.WriteVariant(t, dir, name, 1, sample(rng, fmt.Sprint(i)), nil)
			c := connect(t, addr, nil)
			wg.Go(func() {
				r, err := publish.Run(context.Background(), publish.Options{Client: c, Repo: repoID, Dir: dir})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					won++
					o.faults += r.Commits - 1
				case errors.Is(err, publish.ErrConflict) && same:
					lost++
				default:
					t.Errorf("publisher %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		o.faults += n - 1 // each but the first commits on a branch that moved
		commits, err := h.clean.Commits(t.Context(), theRepo(t), "v1")
		if err != nil || len(commits) != 1+won || won+lost != n || won == 0 || !same && lost > 0 {
			t.Errorf("%d won, %d lost, %d commits, %v", won, lost, len(commits), err)
		}
		if !same {
			rep, err := verify.Run(t.Context(), &source.Hub{Client: h.clean, Repo: theRepo(t), Commit: commits[0].ID}, verify.Options{})
			if err != nil || !rep.OK() || len(rep.Variants) != n {
				t.Errorf("%d variants at the end, %v, %v", len(rep.Variants), rep.Problems, err)
			}
		}
		h.checkSound(t)
		return o
	}
}
