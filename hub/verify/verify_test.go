package verify

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/internal/hubtest"
	"github.com/thox-ai/thoxbuild/hub/internal/memhub"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/hub/publish"
	"github.com/thox-ai/thoxbuild/hub/source"
	"github.com/thox-ai/thoxbuild/manifests"
)

const repoKey = "kernels/thox-ai/demo"

type world struct {
	hub  *memhub.Hub
	src  *source.Hub
	lock *lock.Kernel
	dir  string
}

func published(t *testing.T) *world {
	t.Helper()
	w := &world{hub: memhub.New(), dir: t.TempDir()}
	s := httptest.NewServer(w.hub)
	t.Cleanup(s.Close)
	hubtest.WriteVariant(t, w.dir, hubtest.VariantA, 2, hubtest.Sample("a"), nil)
	hubtest.WriteVariant(t, w.dir, hubtest.VariantB, 2, hubtest.Sample("b"), nil)
	c, err := client.New(client.Config{Endpoint: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	r, err := publish.Run(t.Context(), publish.Options{Client: c, Repo: "thox-ai/demo", Dir: w.dir})
	if err != nil {
		t.Fatal(err)
	}
	w.lock = &lock.Kernel{Repo: r.Repo, Type: client.Kernel, Branch: r.Branch, Revision: r.Revision, Variants: r.Variants}
	repo, err := client.ParseRepo(client.Kernel, r.Repo)
	if err != nil {
		t.Fatal(err)
	}
	w.src = &source.Hub{Client: c, Repo: repo, Commit: r.Revision}
	return w
}

// Each fault is named for what it is.
func TestProblems(t *testing.T) {
	a, b := hubtest.VariantA, hubtest.VariantB
	inFolder := func(w *world, o *Options, change func(v string)) source.Source {
		change(filepath.Join(w.dir, "build", a))
		o.Lock.Branch = ""
		return &source.Folder{Dir: w.dir}
	}
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	for name, tc := range map[string]struct {
		spoil func(w *world, o *Options) source.Source
		want  []string
	}{
		"nothing": {func(w *world, o *Options) source.Source { return w.src }, nil},
		"moved branch with an added and a changed variant": {func(w *world, o *Options) source.Source {
			w.hub.Put(repoKey, "v2", func(f map[string]memhub.File) {
				f["build/torch-cpu/metadata.json"] = memhub.File{Data: []byte("{}")}
				f["build/"+a+"/_ops.py"] = memhub.File{Data: []byte("evil")}
			})
			return w.src
		}, []string{"moved-branch", "added-variant: torch-cpu", "changed-variant: " + a}},
		"branch gone": {func(w *world, o *Options) source.Source {
			w.hub.With(func() { delete(w.hub.Repos[repoKey].Branches, "v2") })
			return w.src
		}, []string{"moved-branch"}},
		"the new head itself": {func(w *world, o *Options) source.Source {
			c := w.hub.Put(repoKey, "v2", func(f map[string]memhub.File) {
				for p := range f {
					if strings.HasPrefix(p, "build/"+b+"/") {
						delete(f, p)
					}
				}
			})
			s := *w.src
			s.Commit = c.ID
			return &s
		}, []string{"moved-branch", "missing-variant: " + b}},
		"revision gone": {func(w *world, o *Options) source.Source {
			s := *w.src
			s.Commit = strings.Repeat("0", 40)
			o.Lock.Revision = s.Commit
			return &s
		}, []string{"missing-revision"}},
		"edited lock": {func(w *world, o *Options) source.Source {
			o.LockErr = lock.ErrEdited
			o.Lock.Variants[a] = o.Lock.Variants[b]
			return w.src
		}, []string{"edited-lock", "changed-variant: " + a}},
		"variant added to the lock by hand": {func(w *world, o *Options) source.Source {
			o.Lock.Variants["torch-cpu"] = o.Lock.Variants[b]
			return w.src
		}, []string{"missing-variant: torch-cpu"}},
		"the two lock files disagree": {func(w *world, o *Options) source.Source {
			two := 2
			o.KernelsLock = &manifests.Lock{Current: []manifests.LockedKernel{{Dependency: manifests.KernelDependency{RepoID: "thox-ai/demo", Version: &two}, Commit: strings.Repeat("1", 40)}}}
			return w.src
		}, []string{"edited-lock"}},
		"swapped, missing and extra file": {func(w *world, o *Options) source.Source {
			return inFolder(w, o, func(v string) {
				must(os.WriteFile(filepath.Join(v, "_ops.py"), []byte("evil"), 0o644))
				must(os.Remove(filepath.Join(v, "layers", "rms.py")))
				must(os.WriteFile(filepath.Join(v, "backdoor.py"), []byte("evil"), 0o644))
			})
		}, []string{"swapped-file: " + a + "/_ops.py", "missing-file: " + a + "/layers/rms.py", "extra-file: " + a + "/backdoor.py", "changed-variant: " + a}},
		"bytecode is no extra file": {func(w *world, o *Options) source.Source {
			return inFolder(w, o, func(v string) {
				must(os.Mkdir(filepath.Join(v, "__pycache__"), 0o755))
				must(os.WriteFile(filepath.Join(v, "__pycache__", "x.cpython-311.pyc"), []byte("x"), 0o644))
			})
		}, nil},
		"file swapped together with its digest": {func(w *world, o *Options) source.Source {
			files := hubtest.Sample("a")
			files["_ops.py"] = "evil"
			hubtest.WriteVariant(t, w.dir, a, 2, files, nil)
			o.Lock.Branch = ""
			return &source.Folder{Dir: w.dir}
		}, []string{"changed-variant: " + a}},
		"no metadata": {func(w *world, o *Options) source.Source {
			return inFolder(w, o, func(v string) { must(os.Remove(filepath.Join(v, "metadata.json"))) })
		}, []string{"missing-file: " + a + "/metadata.json", "changed-variant: " + a}},
		"bad metadata": {func(w *world, o *Options) source.Source {
			return inFolder(w, o, func(v string) { must(os.WriteFile(filepath.Join(v, "metadata.json"), []byte("{"), 0o644)) })
		}, []string{"bad-metadata: " + a + "/metadata.json", "changed-variant: " + a}},
		"variant missing and one added": {func(w *world, o *Options) source.Source {
			return inFolder(w, o, func(v string) { must(os.Rename(v, filepath.Join(filepath.Dir(v), "torch-cpu"))) })
		}, []string{"missing-variant: " + a, "added-variant: torch-cpu"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := published(t)
			o := Options{Lock: w.lock}
			s := tc.spoil(w, &o)
			r, err := Run(t.Context(), s, o)
			if err != nil {
				t.Fatal(err)
			}
			ok := len(r.Problems) == len(tc.want)
			for i, p := range r.Problems {
				ok = ok && i < len(tc.want) && strings.HasPrefix(p.String(), tc.want[i]+":")
			}
			if !ok {
				t.Errorf("problems %q, want %q", r.Problems, tc.want)
			}
		})
	}
}

func TestSignatureHookSeesExactBytes(t *testing.T) {
	w := published(t)
	want, err := os.ReadFile(filepath.Join(w.dir, "build", hubtest.VariantA, "metadata.json"))
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	r, err := Run(t.Context(), w.src, Options{Variants: []string{hubtest.VariantA}, Signature: func(_ context.Context, v string, meta, bundle []byte) error {
		seen = append(seen, v)
		if string(meta) != string(want) || bundle != nil {
			t.Errorf("got %q", meta)
		}
		return errors.New("no signature")
	}})
	if err != nil || !slices.Equal(seen, []string{hubtest.VariantA}) || r.OK() || r.Problems[0].Kind != BadSignature {
		t.Errorf("%v %+v %v", seen, r, err)
	}
}
