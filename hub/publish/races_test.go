package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/internal/memhub"
)

func TestParentCommit(t *testing.T) {
	h := memhub.New()
	s := serve(t, h)
	dir := t.TempDir()
	writeVariant(t, dir, variantA, 1, sample("a"), nil)
	o := options(t, s, dir)
	first := mustRun(t, o).Revision
	h.Put(repoKey, "v1", func(f map[string]memhub.File) { f["x"] = memhub.File{Data: []byte("x")} })
	writeVariant(t, dir, variantA, 1, sample("b"), nil)
	o.ParentCommit = first
	if _, err := Run(t.Context(), o); !errors.Is(err, ErrConflict) {
		t.Errorf("%v", err)
	}
	o.ParentCommit = h.Head(repoKey, "v1").ID
	mustRun(t, o)
}

// A persistent 412 is not a race and must end.
func TestPersistent412Ends(t *testing.T) {
	h := memhub.New()
	commits := 0
	h.Tamper = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/commit/") {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body)
		commits++
		http.Error(w, `{"error":"A commit has happened since. Please refresh and try again."}`, http.StatusPreconditionFailed)
		return true
	}
	dir := t.TempDir()
	writeVariant(t, dir, variantA, 1, sample("a"), nil)
	_, err := Run(t.Context(), options(t, serve(t, h), dir))
	if !errors.Is(err, client.ErrParentMoved) || commits != maxStuck || !strings.Contains(err.Error(), "A commit has happened since") {
		t.Errorf("%d commits, %v", commits, err)
	}
}

// Refusals end at once, with the server's text.
func TestRefusalsAreNotRetried(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404} {
		h := memhub.New()
		calls := 0
		h.Tamper = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/commit/") {
				return false
			}
			calls++
			http.Error(w, `{"error":"storage limit reached"}`, status)
			return true
		}
		dir := t.TempDir()
		writeVariant(t, dir, variantA, 1, sample("a"), nil)
		_, err := Run(t.Context(), options(t, serve(t, h), dir))
		if err == nil || calls != 1 || !strings.Contains(err.Error(), "storage limit reached") {
			t.Errorf("%d: %d calls, %v", status, calls, err)
		}
	}
}

// An answer that is lost after the commit was applied must not lead to a
// second commit.
func TestLostCommitAnswer(t *testing.T) {
	for _, how := range []string{"cut", "500", "garbage"} {
		t.Run(how, func(t *testing.T) {
			h := memhub.New()
			lost := 0
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "/commit/") && lost == 0 {
					lost++
					rec := httptest.NewRecorder()
					h.ServeHTTP(rec, r)
					switch how {
					case "cut":
						panic(http.ErrAbortHandler)
					case "500":
						w.WriteHeader(500)
					case "garbage":
						_, _ = io.WriteString(w, `{"succ`)
					}
					return
				}
				h.ServeHTTP(w, r)
			}))
			defer s.Close()
			dir := t.TempDir()
			writeVariant(t, dir, variantA, 1, sample("a"), nil)
			r := mustRun(t, options(t, server{h, s.URL}, dir))
			if n := len(h.History(repoKey, "v1")); n != 2 || r.Revision != h.Head(repoKey, "v1").ID || r.Status != Uploaded {
				t.Errorf("%d commits, %+v", n, r)
			}
		})
	}
}

func TestRaces(t *testing.T) {
	names := []string{variantA, variantB, "torch212-cxx11-cu126-x86_64-linux", "torch212-cxx11-cu130-x86_64-linux", "torch212-cxx11-cu132-x86_64-linux", "torch213-cxx11-cu126-x86_64-linux", "torch213-cxx11-cu130-x86_64-linux", "torch213-cxx11-cu132-x86_64-linux"}
	for _, n := range []int{2, 8} {
		t.Run(fmt.Sprintf("%d publishers of different variants", n), func(t *testing.T) {
			h := memhub.New()
			s := serve(t, h)
			var wg sync.WaitGroup
			for _, name := range names[:n] {
				dir := t.TempDir()
				writeVariant(t, dir, name, 1, sample(name), nil)
				wg.Go(func() {
					if _, err := Run(context.Background(), options(t, s, dir)); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
			wg.Wait()
			c := h.Head(repoKey, "v1")
			if c == nil {
				t.Fatal("no branch")
			}
			for _, name := range names[:n] {
				if _, ok := c.Files["build/"+name+"/metadata.json"]; !ok {
					t.Errorf("%s is missing at the end", name)
				}
				checkWhole(t, c, name)
			}
			if got := len(h.History(repoKey, "v1")); got != n+1 {
				t.Errorf("%d commits, want one of each publisher", got-1)
			}
		})
		t.Run(fmt.Sprintf("%d publishers of one variant", n), func(t *testing.T) {
			h := memhub.New()
			s := serve(t, h)
			base := t.TempDir()
			writeVariant(t, base, variantB, 1, sample("base"), nil)
			mustRun(t, options(t, s, base))
			var wg sync.WaitGroup
			var mu sync.Mutex
			won := 0
			for i := range n {
				dir := t.TempDir()
				writeVariant(t, dir, variantA, 1, sample(fmt.Sprint(i)), nil)
				wg.Go(func() {
					_, err := Run(context.Background(), options(t, s, dir))
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						won++
					} else if !errors.Is(err, ErrConflict) {
						t.Errorf("%d: %v", i, err)
					}
				})
			}
			wg.Wait()
			// One that starts after another has finished sees its variant and
			// replaces it knowingly; what may not happen is a mix.
			if won == 0 || len(h.History(repoKey, "v1")) != 2+won {
				t.Errorf("%d won, %d commits", won, len(h.History(repoKey, "v1"))-2)
			}
			for _, c := range h.History(repoKey, "v1") {
				checkWhole(t, c, variantA)
			}
		})
	}
}
