package publish

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/internal/faulty"
	"github.com/thox-ai/thoxbuild/hub/internal/hubtest"
	"github.com/thox-ai/thoxbuild/hub/internal/memhub"
)

// faultRuns is 100, or 1000 for the whole suite.
func faultRuns() int {
	if os.Getenv("THOXBUILD_TEST_FULL") == "1" {
		return 1000
	}
	return 100
}

// TestFaults publishes twice through a server that breaks every third
// request, and kills some publishers on the way. However it goes: nothing is
// half published, no commit is made twice, a rerun completes, and an object is
// sent again only if a fault struck it.
func TestFaults(t *testing.T) {
	var mu sync.Mutex
	hits := map[faulty.Kind]int{}
	reruns, resent := 0, 0
	t.Run("runs", func(t *testing.T) {
		for seed := range faultRuns() {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				again, puts, h := faultRun(t, uint64(seed))
				mu.Lock()
				defer mu.Unlock()
				reruns += again
				resent += puts
				for k, n := range h {
					hits[k] += n
				}
			})
		}
	})
	t.Logf("%d runs survived %v; %d reruns, %d objects sent again after a fault", faultRuns(), hits, reruns, resent)
	for _, k := range faulty.Kinds {
		if hits[k] == 0 {
			t.Errorf("no run met %q", k)
		}
	}
}

func faultRun(t *testing.T, seed uint64) (reruns, resent int, hits map[faulty.Kind]int) {
	rng := rand.New(rand.NewPCG(seed, 1))
	h := memhub.New()
	h.PageSize = 1 + rng.IntN(10)
	if rng.IntN(2) == 0 {
		h.ChunkSize = 9_000 + rng.Int64N(20_000)
	}
	f := &faulty.Handler{Next: h, Seed: seed, Rate: 0.3}
	s := httptest.NewServer(f)
	defer s.Close()
	c := testClient(t, s.URL, client.Config{Retry: client.Retry{Attempts: 3, Base: 100 * time.Microsecond, Max: time.Millisecond}})
	dir := t.TempDir()
	for publish := range 2 {
		for _, v := range []string{hubtest.VariantA, hubtest.VariantB} {
			writeVariant(t, dir, v, 1, sample(fmt.Sprint(v, publish)), nil)
		}
		var r *Result
		var err error
		for try := 0; ; try++ {
			ctx, cancel := context.WithCancel(t.Context())
			if rng.IntN(3) == 0 {
				time.AfterFunc(time.Duration(rng.IntN(15))*time.Millisecond, cancel)
			}
			r, err = Run(ctx, Options{Client: c, Repo: repoID, Dir: dir, batch: limits{ops: 1000}})
			cancel()
			for _, commit := range h.History(repoKey, "v1") {
				checkWhole(t, commit, hubtest.VariantA)
				checkWhole(t, commit, hubtest.VariantB)
			}
			if err == nil {
				break
			}
			if errors.Is(err, ErrConflict) {
				t.Fatalf("seed %d: a conflict with nobody: %v", seed, err)
			}
			if reruns++; try > 100 {
				t.Fatalf("seed %d: no rerun completes: %v", seed, err)
			}
		}
		head := h.Head(repoKey, "v1")
		if head == nil || r.Revision != head.ID {
			t.Fatalf("seed %d: result %+v, head %v", seed, r, head)
		}
		if n := len(h.History(repoKey, "v1")); n != 2+publish {
			t.Errorf("seed %d: %d commits after publish %d", seed, n, publish)
		}
		for _, v := range []string{hubtest.VariantA, hubtest.VariantB} {
			if got := string(head.Files["build/"+v+"/__init__.py"].Data); got != sample(fmt.Sprint(v, publish))["__init__.py"] {
				t.Errorf("seed %d: %s is %q", seed, v, got)
			}
		}
	}
	h.With(func() {
		for oid, n := range h.Puts {
			struck := 0
			for _, verb := range []string{"put", "complete"} {
				struck += f.On("/store/" + repoKey + "/" + verb + "/" + oid)
			}
			resent += n - 1
			// One more for a publisher killed after the server had the
			// object, before it answered.
			if n > 1+struck+reruns {
				t.Errorf("seed %d: object %.8s was stored %d times with %d faults", seed, oid, n, struck)
			}
		}
	})
	return reruns, resent, f.Hits()
}
