package faulty_test

import (
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/thox-ai/thoxbuild/hub/bundle"
	"github.com/thox-ai/thoxbuild/hub/internal/hubtest"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/hub/oci"
	"github.com/thox-ai/thoxbuild/hub/publish"
	"github.com/thox-ai/thoxbuild/hub/pull"
	"github.com/thox-ai/thoxbuild/hub/source"
	"github.com/thox-ai/thoxbuild/hub/verify"
)

// access is patient with many faults and never waits long for one. Layers of
// more than a chunk go in several.
func access(m *meter) oci.Access {
	a := oci.Access{Wait: time.Millisecond, Settle: 5 * time.Millisecond, Chunk: 24_000, Transport: http.DefaultTransport}
	if m != nil {
		a.Transport = m
	}
	return a
}

// registryMaker gives each run a registry, or a repository of its own in one.
type registryMaker func(t *testing.T) (h http.Handler, repo string)

// inProcess is the library's registry, which lists referrers and does not say
// how much of an upload has arrived.
func inProcess(*testing.T) (http.Handler, string) {
	return registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)), repoID
}

// dockerRegistry starts the real one for all runs of a test; it resumes
// uploads and keeps referrers in tags.
func dockerRegistry(t *testing.T) registryMaker {
	addr := hubtest.DockerRegistry(t)
	if addr == "" {
		t.Log("without docker-registry, which is not on the PATH (the Debian package of that name)")
		return nil
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: addr})
		r.Out.Host = r.In.Host // upload locations are made from it
	}}
	var n atomic.Int64
	return func(*testing.T) (http.Handler, string) { return proxy, fmt.Sprintf("runs/demo%d", n.Add(1)) }
}

func address(t *testing.T, host, repo string) oci.Target {
	tg, err := oci.ParseTarget("oci://" + host + "/" + repo + ":v1")
	if err != nil {
		t.Fatal(err)
	}
	return tg
}

// checkTag verifies what a tag holds: nothing at all, or all variants whole.
func checkTag(t *testing.T, tg oci.Target, k *lock.Kernel) {
	t.Helper()
	src, err := oci.Open(t.Context(), tg, access(nil))
	if err != nil {
		if k != nil {
			t.Error(err)
		}
		return
	}
	defer src.Close()
	rep, err := verify.Run(t.Context(), src, verify.Options{Lock: k})
	if err != nil || !rep.OK() || len(rep.Variants) != len(variants) {
		t.Errorf("the tag holds %d variants, %v, %v", len(rep.Variants), rep.Problems, err)
	}
}

// pushRow pushes two generations of two variants, each with a report, to a
// registry that breaks requests.
func pushRow(faults between, newRegistry registryMaker) func(*testing.T, uint64) outcome {
	return func(t *testing.T, seed uint64) (o outcome) {
		rng := rand.New(rand.NewPCG(seed, 13))
		reg, repo := newRegistry(t)
		clean := address(t, listen(t, reg), repo)
		addr, hits := faults(t, reg, seed)
		m := newMeter()
		for generation := range 2 {
			dir := t.TempDir()
			var attached []oci.Attachment
			for _, v := range variants {
				hubtest.WriteVariant(t, dir, v, 1, sample(rng, fmt.Sprint(v, generation)), nil)
				attached = append(attached, oci.Attachment{Variant: v, ArtifactType: oci.ABIReportType, Data: fmt.Appendf(nil, `{"of":%q}`, v)})
			}
			b, err := bundle.Read(t.Context(), dir, bundle.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range b.Variants {
				o.payload += v.Bytes() // compressed, it is hardly less
			}
			var r *oci.Result
			for try := 0; ; try++ {
				ctx, end := life(t)
				r, err = oci.Push(ctx, oci.PushOptions{Access: access(m), Target: address(t, addr, repo), Bundle: b, Attachments: attached})
				if end(); err == nil {
					break
				}
				checkTag(t, clean, nil)
				o.reruns++
				m.nextRun()
				if try > tries {
					t.Fatalf("no rerun completes: %v", err)
				}
			}
			checkTag(t, clean, &lock.Kernel{Repo: r.Repo, Branch: r.Tag, Revision: r.Revision, Variants: r.Variants})
			src, err := oci.Open(t.Context(), clean, access(nil))
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range variants {
				if got, err := src.Referrers(v, oci.ABIReportType); err != nil || len(got) != 1 {
					t.Errorf("generation %d: %d reports are attached to %s, %v", generation, len(got), v, err)
				}
			}
			src.Close()
			again, err := oci.Push(t.Context(), oci.PushOptions{Access: access(nil), Target: clean, Bundle: b, Attachments: attached})
			if err != nil || again.Changed || again.Sent != 0 {
				t.Errorf("generation %d: the rerun left something to do: %+v, %v", generation, again, err)
			}
		}
		for _, p := range m.problems {
			t.Error(p)
		}
		o.faults, o.sent = hits(), m.total()
		return o
	}
}

// pullRow installs through faults. A variant's folder is whole or absent after
// every attempt, and a rerun completes.
func pullRow(faults between, fromRegistry bool) func(*testing.T, uint64) outcome {
	return func(t *testing.T, seed uint64) (o outcome) {
		rng := rand.New(rand.NewPCG(seed, 14))
		dir, dest := t.TempDir(), t.TempDir()
		for _, v := range variants {
			hubtest.WriteVariant(t, dir, v, 1, sample(rng, v), nil)
		}
		var k *lock.Kernel
		var open func() (source.Source, error)
		var hits func() int
		if fromRegistry {
			reg, repo := inProcess(t)
			b, err := bundle.Read(t.Context(), dir, bundle.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r, err := oci.Push(t.Context(), oci.PushOptions{Access: access(nil), Target: address(t, listen(t, reg), repo), Bundle: b})
			if err != nil {
				t.Fatal(err)
			}
			k = &lock.Kernel{Repo: r.Repo, Branch: r.Tag, Revision: r.Revision, Variants: r.Variants}
			var addr string
			addr, hits = faults(t, reg, seed)
			open = func() (source.Source, error) {
				s, err := oci.Open(t.Context(), address(t, addr, repo), access(newMeter()))
				if err == nil {
					t.Cleanup(func() { s.Close() })
				}
				return s, err
			}
		} else {
			h := newHub(t)
			r, err := publish.Run(t.Context(), publish.Options{Client: h.clean, Repo: repoID, Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			k = locked(r)
			var addr string
			addr, hits = faults(t, h, seed)
			src := &source.Hub{Client: connect(t, addr, newMeter()), Repo: theRepo(t), Commit: r.Revision}
			open = func() (source.Source, error) { return src, nil }
		}
		for try := 0; ; try++ {
			src, err := open()
			if err == nil {
				var res *pull.Result
				if res, err = pull.Run(t.Context(), pull.Options{Source: src, Repo: theRepo(t), Lock: k, Dir: dest, Layout: pull.Plain}); err == nil {
					o.payload = res.Fetched + res.Reused
				}
			}
			installed(t, dest, k, err == nil)
			if err == nil {
				break
			}
			o.reruns++
			if try > tries {
				t.Fatalf("no rerun completes: %v", err)
			}
		}
		o.faults, o.sent = hits(), o.payload
		return o
	}
}

// installed verifies the variants that are there.
func installed(t *testing.T, dest string, k *lock.Kernel, all bool) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dest, "build", "*"))
	if err != nil {
		t.Fatal(err)
	}
	part := *k
	part.Variants = map[string]lock.Digest{}
	for _, f := range found {
		if fi, err := os.Stat(f); err == nil && fi.IsDir() {
			part.Variants[filepath.Base(f)] = k.Variants[filepath.Base(f)]
		}
	}
	if all && len(part.Variants) != len(k.Variants) {
		t.Errorf("%d of %d variants are installed", len(part.Variants), len(k.Variants))
	}
	if len(part.Variants) == 0 {
		return
	}
	src, err := source.OpenFolder(dest)
	if err != nil {
		t.Fatal(err)
	}
	if rep, err := verify.Run(t.Context(), src, verify.Options{Lock: &part}); err != nil || !rep.OK() {
		t.Errorf("installed: %+v, %v", rep, err)
	}
}
