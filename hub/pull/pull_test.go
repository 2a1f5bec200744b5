package pull

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/internal/hubtest"
	"github.com/thox-ai/thoxbuild/hub/internal/memhub"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/hub/publish"
	"github.com/thox-ai/thoxbuild/hub/source"
	"github.com/thox-ai/thoxbuild/hub/verify"
	"golang.org/x/sync/errgroup"
)

type world struct {
	hub  *memhub.Hub
	c    *client.Client
	repo client.Repo
	dir  string
	lock *lock.Kernel
}

// published is a Hub with one kernel of two variants, and its pin.
func published(t *testing.T) *world {
	t.Helper()
	w := &world{hub: memhub.New(), dir: t.TempDir()}
	s := httptest.NewServer(w.hub)
	t.Cleanup(s.Close)
	hubtest.WriteVariant(t, w.dir, hubtest.VariantA, 2, hubtest.Sample("a"), nil)
	hubtest.WriteVariant(t, w.dir, hubtest.VariantB, 2, hubtest.Sample("b"), nil)
	w.connect(t, s.URL)
	r, err := publish.Run(t.Context(), publish.Options{Client: w.c, Repo: "thox-ai/demo", Dir: w.dir})
	if err != nil {
		t.Fatal(err)
	}
	w.lock = &lock.Kernel{Repo: r.Repo, Type: client.Kernel, Branch: r.Branch, Revision: r.Revision, Variants: r.Variants}
	return w
}

func (w *world) connect(t *testing.T, url string) {
	t.Helper()
	var err error
	if w.c, err = client.New(client.Config{Endpoint: url, Retry: client.Retry{Base: time.Millisecond, Max: 2 * time.Millisecond}}); err != nil {
		t.Fatal(err)
	}
	if w.repo, err = client.ParseRepo(client.Kernel, "thox-ai/demo"); err != nil {
		t.Fatal(err)
	}
}

func (w *world) source() *source.Hub {
	return &source.Hub{Client: w.c, Repo: w.repo, Commit: w.lock.Revision}
}

func kinds(r *verify.Report) (out []string) {
	for _, p := range r.Problems {
		out = append(out, string(p.Kind))
	}
	return out
}

// A pull into a cache verifies, costs nothing the second time, and verifies
// from there again.
func TestPullCache(t *testing.T) {
	w := published(t)
	dir := t.TempDir()
	o := Options{Source: w.source(), Repo: w.repo, Lock: w.lock, Dir: dir, Variants: []string{"torch213-*"}}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Variants) != 1 || r.Fetched == 0 {
		t.Errorf("%+v", r)
	}
	variant := filepath.Join(dir, w.repo.CacheFolder(), "snapshots", w.lock.Revision, "build", "torch213-cxx11-cpu-x86_64-linux")
	before, err := os.Stat(variant)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Run(t.Context(), o)
	if err != nil || again.Fetched != 0 || again.Reused != r.Fetched {
		t.Errorf("again: %+v, %v", again, err)
	}
	// Who loads it meanwhile sees the folder all the time; what does not belong
	// there goes.
	if after, err := os.Stat(variant); err != nil || !os.SameFile(before, after) {
		t.Errorf("a pull that brought nothing put another folder there: %v", err)
	}
	if err := os.WriteFile(filepath.Join(variant, "stray.py"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(variant, "stray.py")); err == nil {
		t.Error("a stray file is still there")
	}
	f, err := source.OpenCache(dir, w.repo, "v2")
	if err != nil {
		t.Fatal(err)
	}
	rep, err := verify.Run(t.Context(), f, verify.Options{Lock: w.lock, Installed: true})
	if err != nil || !rep.OK() || rep.Files == 0 {
		t.Errorf("%+v, %v", rep, err)
	}
}

// Pulls into one cache at once get it all, and leave it whole.
func TestPullAtOnce(t *testing.T) {
	w := published(t)
	for _, layout := range []Layout{Cache, Plain} {
		dir := t.TempDir()
		o := Options{Source: w.source(), Repo: w.repo, Lock: w.lock, Dir: dir, Layout: layout}
		var g errgroup.Group
		for range 8 {
			g.Go(func() error {
				_, err := Run(t.Context(), o)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			t.Errorf("%s: %v", layout, err)
		}
		if layout == Plain {
			continue
		}
		f, err := source.OpenCache(dir, w.repo, "v2")
		if err != nil {
			t.Fatal(err)
		}
		rep, err := verify.Run(t.Context(), f, verify.Options{Lock: w.lock, Installed: true})
		if err != nil || !rep.OK() || rep.Files == 0 {
			t.Errorf("%+v, %v", rep, err)
		}
	}
}

// Plain folders and folders as sources.
func TestPullPlainFromFolder(t *testing.T) {
	w := published(t)
	dir := t.TempDir()
	f, err := source.OpenFolder(filepath.Join(w.dir, "build"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), Options{Source: f, Repo: w.repo, Lock: w.lock, Dir: dir, Layout: Plain})
	if err != nil || len(r.Variants) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "build", hubtest.VariantA, "layers", "rms.py")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, ".pull")); err == nil {
		t.Error("the staging folder is left")
	}
}

// Whatever is not as locked is named and nothing of it is installed.
func TestPullRefuses(t *testing.T) {
	for name, spoil := range map[string]func(w *world, o *Options){
		"lock digest": func(w *world, o *Options) {
			w.lock.Variants[hubtest.VariantA] = w.lock.Variants[hubtest.VariantB]
		},
		"swapped file in a folder": func(w *world, o *Options) {
			_ = os.WriteFile(filepath.Join(w.dir, "build", hubtest.VariantA, "_ops.py"), []byte("evil"), 0o644)
			o.Source = &source.Folder{Dir: w.dir}
		},
		"missing variant": func(w *world, o *Options) {
			_ = os.RemoveAll(filepath.Join(w.dir, "build", hubtest.VariantA))
			o.Source = &source.Folder{Dir: w.dir}
		},
		"other revision": func(w *world, o *Options) {
			c := w.hub.Put("kernels/thox-ai/demo", "v2", func(map[string]memhub.File) {})
			o.Source = &source.Hub{Client: w.c, Repo: w.repo, Commit: c.ID}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := published(t)
			dir := t.TempDir()
			o := Options{Source: w.source(), Repo: w.repo, Lock: w.lock, Dir: dir}
			spoil(w, &o)
			_, err := Run(t.Context(), o)
			if !errors.Is(err, ErrMismatch) {
				t.Errorf("%v", err)
			}
			if _, err := os.Stat(filepath.Join(dir, w.repo.CacheFolder(), "snapshots", w.lock.Revision, "build", hubtest.VariantA)); err == nil {
				t.Error("the variant was installed")
			}
		})
	}
}

// A Hub that serves other bytes than it lists is caught while streaming.
func TestPullLyingHub(t *testing.T) {
	w := published(t)
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		w.hub.ServeHTTP(rec, r)
		b := rec.Body.Bytes()
		if strings.Contains(r.URL.Path, "/resolve/") && strings.HasSuffix(r.URL.Path, ".so") {
			b[len(b)/2] ^= 1
		}
		for k, v := range rec.Header() {
			rw.Header()[k] = v
		}
		rw.WriteHeader(rec.Code)
		_, _ = rw.Write(b)
	}))
	defer s.Close()
	w.connect(t, s.URL)
	_, err := Run(t.Context(), Options{Source: w.source(), Repo: w.repo, Lock: w.lock, Dir: t.TempDir()})
	if !errors.Is(err, source.ErrCorrupt) || !strings.Contains(err.Error(), ".so") {
		t.Errorf("%v", err)
	}
	rep, err := verify.Run(t.Context(), w.source(), verify.Options{Lock: w.lock})
	if err != nil || !strings.Contains(strings.Join(kinds(rep), " "), "swapped-file") {
		t.Errorf("%+v, %v", rep, err)
	}
}

// The unmodified library loads what was pulled, with no network at all: by
// revision and by version.
func TestRealLoaderOffline(t *testing.T) {
	if testing.Short() {
		t.Skip("imports torch: skipped with -short")
	}
	py := filepath.Join("..", "..", ".venv", "bin", "python")
	if _, err := os.Stat(py); err != nil {
		t.Skip("needs .venv with kernels and torch; make venv prepares it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	w := published(t)
	dir := t.TempDir()
	if _, err := Run(ctx, Options{Source: w.source(), Repo: w.repo, Lock: w.lock, Dir: dir}); err != nil {
		t.Fatal(err)
	}
	script := `
import kernels, sys
m = kernels.get_kernel("thox-ai/demo", revision=sys.argv[1], backend="cpu", trust_remote_code=True)
n = kernels.get_kernel("thox-ai/demo", version=2, backend="cpu", trust_remote_code=True)
print(m.WHO, n.WHO)
`
	cmd := exec.CommandContext(ctx, py, "-c", script, w.lock.Revision)
	cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "KERNELS_CACHE="+dir, "HF_HUB_CACHE="+dir, "HF_HOME="+t.TempDir(), "HF_ENDPOINT=http://127.0.0.1:9", "HF_HUB_DISABLE_TELEMETRY=1", "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "a a") {
		t.Errorf("%v\n%s", err, out)
	}
}
