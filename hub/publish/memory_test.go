package publish_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thox-ai/thoxbuild/hub/internal/hubtest"
	"github.com/thox-ai/thoxbuild/hub/publish"
	"github.com/thox-ai/thoxbuild/hub/server"
	"github.com/thox-ai/thoxbuild/hub/store"
	"github.com/thox-ai/thoxbuild/manifests"
)

// TestConstantMemory publishes a variant of 2 GB. Client and server run in
// this process, so the bound holds for both together.
func TestConstantMemory(t *testing.T) {
	if os.Getenv("THOXBUILD_TEST_FULL") != "1" {
		t.Skip("writes 4 GB: set THOXBUILD_TEST_FULL=1")
	}
	const size, bound = 2 << 30, 100 << 20
	dir := t.TempDir()
	hubtest.WriteVariant(t, dir, hubtest.VariantA, 1, hubtest.Sample("a"), nil)
	v := filepath.Join(dir, "build", hubtest.VariantA)
	if err := os.Truncate(filepath.Join(v, "_demo.abi3.so"), size); err != nil {
		t.Fatal(err)
	}
	d, err := manifests.HashVariant(t.Context(), v, manifests.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(v, manifests.MetadataFile))
	if err != nil {
		t.Fatal(err)
	}
	m, err := manifests.ParseMetadata(raw)
	if err != nil {
		t.Fatal(err)
	}
	m.Digest = d
	if raw, err = m.Print(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(v, manifests.MetadataFile), raw, 0o644); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	srv, err := server.New(server.Options{Store: st})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(srv)
	defer s.Close()
	var peak atomic.Uint64
	stop := make(chan struct{})
	go func() {
		for {
			var ms runtime.MemStats
			runtime.ReadMemStats(&ms)
			peak.Store(max(peak.Load(), ms.HeapInuse+ms.StackInuse))
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	start := time.Now()
	o := publish.Options{Client: connect(t, s.URL, 3), Repo: "thox-ai/big", Dir: dir}
	r, err := publish.Run(t.Context(), o)
	close(stop)
	if err != nil || r.Sent < size {
		t.Fatalf("%+v, %v", r, err)
	}
	t.Logf("2 GB in %v, peak %d MB", time.Since(start).Round(time.Millisecond), peak.Load()>>20)
	if peak.Load() > bound {
		t.Errorf("peak memory %d MB, at most %d allowed", peak.Load()>>20, bound>>20)
	}
}

// BenchmarkNoChange is a publish of 24 variants, 60 MB, that changes nothing.
func BenchmarkNoChange(b *testing.B) {
	dir := b.TempDir()
	big := make([]byte, 2_500_000)
	for i := range 24 {
		files := hubtest.Sample("x")
		files["_demo.abi3.so"] = string(big[:len(big)-i])
		hubtest.WriteVariant(b, dir, fmt.Sprintf("torch2%d-cxx11-cu130-%s-linux", 10+i%12, []string{"x86_64", "aarch64"}[i/12]), 1, files, nil)
	}
	st, err := store.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	srv, err := server.New(server.Options{Store: st})
	if err != nil {
		b.Fatal(err)
	}
	s := httptest.NewServer(srv)
	defer s.Close()
	o := publish.Options{Endpoint: s.URL, Repo: "thox-ai/many", Dir: dir}
	if _, err := publish.Run(b.Context(), o); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if r, err := publish.Run(b.Context(), o); err != nil || r.Status != publish.NoChanges {
			b.Fatal(r, err)
		}
	}
}
