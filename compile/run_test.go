package compile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/thox-ai/thoxbuild/compile/action"
	"github.com/thox-ai/thoxbuild/compile/local"
	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/matrix"
)

func TestRunMakesWhatTheLoaderWants(t *testing.T) {
	b := newBench(t, t.TempDir())
	res := b.mustRun(cpu213, cu130)
	if res.Counts.Failed+res.Counts.Skipped+res.Counts.Cached != 0 || res.Counts.Ran != res.Counts.Total {
		t.Errorf("counts %+v", res.Counts)
	}
	for _, v := range res.Variants {
		if v.Err != nil || v.Cached {
			t.Errorf("%+v", v)
		}
		m, err := manifests.VerifyVariant(context.Background(), v.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if m.ID != v.Ops || !strings.HasPrefix(m.Provenance.KernelBuilder.Version, "thoxbuild test (") || !strings.Contains(m.Provenance.KernelBuilder.Version, "cxx ") {
			t.Errorf("metadata %+v", m)
		}
		var files []string
		for f := range hashTree(t, v.Dir) {
			files = append(files, f)
		}
		slices.Sort(files)
		want := []string{"__init__.py", "_ops.py", v.Ops + ".abi3.so", "layers.py", "metadata.json"}
		slices.Sort(want)
		if diff := cmp.Diff(want, files); diff != "" {
			t.Error(diff)
		}
	}
	archs := []string{"12.0+PTX", "8.0", "9.0a"} // sorted as text, as the reference tool does
	m, err := manifests.VerifyVariant(context.Background(), filepath.Join(b.out, cu130))
	if err != nil || !slices.Equal(m.Backend.Archs, archs) {
		t.Errorf("archs %q, want %q (%v)", m.Backend.Archs, archs, err)
	}
}

func TestNoopLeavesFoldersAlone(t *testing.T) {
	b := newBench(t, t.TempDir())
	dir := b.mustRun(cpu213).Variants[0].Dir
	before, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	// What Python and a signer leave beside the files is not ours.
	os.MkdirAll(filepath.Join(dir, "__pycache__"), 0o755)
	os.WriteFile(filepath.Join(dir, "__pycache__", "x.pyc"), []byte("x"), 0o644)
	os.WriteFile(filepath.Join(dir, "metadata.json.sigstore"), []byte("{}"), 0o644)
	res := b.mustRun(cpu213)
	after, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !res.Variants[0].Cached || res.Counts.Ran != 0 || !os.SameFile(before, after) {
		t.Errorf("%+v, same folder %v", res, os.SameFile(before, after))
	}
	// A file that does not belong, or has changed, makes the folder again.
	for _, spoil := range []func(){
		func() { os.WriteFile(filepath.Join(dir, "extra.py"), nil, 0o644) },
		func() { os.WriteFile(filepath.Join(dir, "layers.py"), []byte("x = 3\n"), 0o644) },
		func() { os.Remove(filepath.Join(dir, "_ops.py")) },
		func() {
			os.Remove(filepath.Join(dir, "layers.py"))
			os.Symlink("/etc/passwd", filepath.Join(dir, "layers.py"))
		},
	} {
		spoil()
		res := b.mustRun(cpu213)
		if res.Variants[0].Cached || res.Counts.Ran != 0 {
			t.Errorf("a spoilt folder was kept: %+v", res)
		}
		if _, err := manifests.VerifyVariant(context.Background(), dir); err != nil {
			t.Error(err)
		}
	}
	left, _ := filepath.Glob(filepath.Join(b.out, ".*"))
	if len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestEditRebuildsWhatItTouches(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.mustRun(cpu213, cpu211)
	name213, name211 := "compile the name of "+cpu213, "compile the name of "+cpu211
	links := []string{"link " + cpu211, "link " + cpu213}
	for _, c := range []struct {
		file, old, new string
		want           []string
	}{
		{"cpu/wide.cpp", "2 * x", "x * 2", append([]string{"compile cpu/wide.cpp (wide cpu x86_64)", name213, name211}, links...)},
		{"csrc/base_only.h", "once", "once // edited", append([]string{"compile cpu/base.cpp (base cpu x86_64)", name213, name211}, links...)},
		{"torch-ext/torch_binding.h", "once", "once // edited", append([]string{
			"compile torch-ext/torch_binding.cpp (torch211 cpu x86_64)", "compile torch-ext/torch_binding.cpp (torch213 cpu x86_64)", name213, name211}, links...)},
		{"torch-ext/tiny_kernel/layers.py", "x = 1", "x = 2", append([]string{name213, name211}, links...)},
	} {
		b.edit(c.file, c.old, c.new)
		b.mustRun(cpu213, cpu211)
		slices.Sort(c.want)
		if diff := cmp.Diff(c.want, b.ran()); diff != "" {
			t.Errorf("edit of %s (-want +got):\n%s", c.file, diff)
		}
	}
}

// A link waits for what only it reads, the compilers do not; a cached link
// waits for nothing.
func TestLinkWaitsForItsLibraries(t *testing.T) {
	b := newBench(t, t.TempDir())
	ready := func(context.Context) error { return errors.New("no stubs") }
	b.tools = func(v matrix.Variant) (*Toolset, error) {
		ts, err := fakeTools(v)
		ts.Link.Ready = func(ctx context.Context) error { return ready(ctx) }
		return ts, err
	}
	_, err := b.run(cpu213)
	var failed *ActionError
	if !errors.As(err, &failed) || failed.Label != "link "+cpu213 || !strings.Contains(err.Error(), "no stubs") {
		t.Fatalf("error %v, expected the link's", err)
	}
	if n := len(b.ran()); n == 0 {
		t.Error("nothing was compiled before the link")
	}
	asked := 0
	ready = func(context.Context) error { asked++; return nil }
	if b.mustRun(cpu213); asked != 1 {
		t.Errorf("asked %d times for one link", asked)
	}
	os.RemoveAll(b.out)
	if b.mustRun(cpu213); asked != 1 {
		t.Error("a cached link waited")
	}
}

// A library linked early is taken where it is the whole one, under the key of
// the whole link; where it is not, or cannot be linked so, the link is done as
// it stands.
func TestEarlyLink(t *testing.T) {
	for _, c := range []struct {
		name  string
		whole bool
		to    string
		err   error
		early bool // the early library is the result
	}{
		{"the same", true, "-learly", nil, true},
		{"another", false, "-learly", nil, false},
		{"fails", true, "fake:fail", nil, false},
		{"cannot tell", true, "-learly", errors.New("no ELF"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, t.TempDir())
			waited, asked := 0, 0
			b.tools = func(v matrix.Variant) (*Toolset, error) {
				ts, err := fakeTools(v)
				ts.Link.Ready = func(context.Context) error { asked++; return nil }
				ts.Link.Early = &EarlyLink{"-ltorch", c.to, func(context.Context) error { waited++; return nil },
					func(string) (bool, error) { return c.whole, c.err }}
				return ts, err
			}
			res := b.mustRun(cpu213)
			libs, _ := filepath.Glob(filepath.Join(res.Variants[0].Dir, "*.so"))
			if len(libs) != 1 {
				t.Fatalf("%d libraries", len(libs))
			}
			text, err := os.ReadFile(libs[0])
			if err != nil {
				t.Fatal(err)
			}
			if early := strings.Contains(string(text), "-learly"); early != c.early || waited != 1 || (asked == 0) != c.early {
				t.Errorf("early %v, waited %d times, asked for the whole %d times", early, waited, asked)
			}
			// Whoever has everything finds the same link in the cache.
			b.tools = fakeTools
			if res := b.mustRun(cpu213); res.Counts.Ran != 0 {
				t.Errorf("%d actions ran again", res.Counts.Ran)
			}
		})
	}
}

// A binding that uses the extension's name in a way of its own is compiled
// under the real name, and again whenever the name changes.
func TestFreeNameIsCompiledIn(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.edit("torch-ext/torch_binding.cpp", "REGISTER", "const char *who = STRING(TORCH_EXTENSION_NAME);\nREGISTER")
	p := b.plan(cpu213)
	var defines string
	for _, a := range p.Actions() {
		if strings.Contains(a.Label, "torch_binding") {
			defines = strings.Join(a.args, " ")
		}
		if strings.Contains(a.Label, "the name of") {
			t.Error("a name is linked in although it is compiled in")
		}
	}
	if !strings.Contains(defines, "-DTORCH_EXTENSION_NAME="+p.variants[0].ops) || strings.Contains(defines, "LATE") {
		t.Errorf("binding is compiled with %s", defines)
	}
}

func TestReproducible(t *testing.T) {
	one, two := newBench(t, t.TempDir()), newBench(t, filepath.Join(t.TempDir(), "a much", "longer place"))
	one.mustRun(cpu213, arm213, cu130, metal13)
	for k, v := range map[string]string{"HOME": t.TempDir(), "TMPDIR": t.TempDir(), "LANG": "tr_TR.UTF-8", "TZ": "Pacific/Chatham", "USER": "somebody"} {
		t.Setenv(k, v)
	}
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	past := time.Date(2011, 11, 11, 0, 0, 0, 0, time.UTC)
	err := filepath.WalkDir(two.kernel.Dir, func(p string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(p, past, past))
	})
	if err != nil {
		t.Fatal(err)
	}
	two.opts.Jobs = 1
	two.mustRun(metal13, cu130, arm213, cpu213)
	if diff := cmp.Diff(hashTree(t, one.out), hashTree(t, two.out)); diff != "" {
		t.Errorf("two builds differ:\n%s", diff)
	}
}

func TestFailureSaysWhatAPersonNeeds(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.edit("cpu/wide.cpp", "int", "// fake:fail\nint")
	res, err := b.run(cpu213, cpu211, cu130)
	var ae *ActionError
	if !errors.As(err, &ae) {
		t.Fatal(err)
	}
	for _, want := range []string{"compile cpu/wide.cpp", "exit status 1", "told to fail", "command: env -i ", "-mavx2", "waiting for it: " + cpu213 + ", " + cpu211} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q in it", err, want)
		}
	}
	for _, v := range res.Variants {
		if v.Err == nil && v.Name != cu130 {
			t.Errorf("%s has no error", v.Name)
		}
	}
	b.opts.KeepGoing = true
	res, err = b.run(cpu213, cpu211, cu130)
	if err == nil || res.Variants[2].Err != nil || res.Variants[0].Err == nil {
		t.Errorf("with keep-going: %+v, %v", res.Variants, err)
	}
	if _, err := manifests.VerifyVariant(context.Background(), res.Variants[2].Dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(res.Variants[0].Dir); err == nil {
		t.Error("a failed variant has a folder")
	}
	// The next build goes on where this one ended.
	b.edit("cpu/wide.cpp", "// fake:fail\n", "")
	res = b.mustRun(cpu213, cpu211, cu130)
	if res.Counts.Cached == 0 || slices.ContainsFunc(b.ran(), func(l string) bool { return strings.Contains(l, "device") }) {
		t.Errorf("ran %q", b.ran())
	}
}

func TestUndeclaredHeader(t *testing.T) {
	b := newBench(t, t.TempDir())
	os.WriteFile(filepath.Join(b.kernel.Dir, "cpu/secret.h"), []byte("#pragma once\n"), 0o644)
	b.edit("cpu/base.cpp", `#include "shared.h"`, "#include \"shared.h\"\n#include \"secret.h\"")
	_, err := b.run(cpu213)
	if err == nil || !strings.Contains(err.Error(), "cpu/secret.h exists, but no src") {
		t.Errorf("got %v", err)
	}
	b.edit("build.toml", `"cpu/base.cpp", `, `"cpu/base.cpp", "cpu/secret.h", `)
	b.kernel = loadKernel(t, b.kernel.Dir)
	b.mustRun(cpu213)
}

func TestBadCompilers(t *testing.T) {
	for word, want := range map[string]string{
		"fake:die":     "ended by signal 9",
		"fake:nothing": "did not write it",
	} {
		b := newBench(t, t.TempDir())
		b.edit("cpu/wide.cpp", "int", "// "+word+"\nint")
		_, err := b.run(cpu213)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", word, err, want)
		}
		b.edit("cpu/wide.cpp", "// "+word+"\n", "")
		b.mustRun(cpu213)
	}
	b := newBench(t, t.TempDir())
	b.edit("cpu/wide.cpp", "int", "// fake:hang\nint")
	b.opts.Timeout = 300 * time.Millisecond
	b.opts.KeepGoing = true
	_, err := b.run(cpu213)
	if !errors.Is(err, action.ErrTimeout) {
		t.Errorf("hanging compiler: %v", err)
	}
}

// Cancelling ends the commands and leaves nothing half done.
func TestCancel(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.mustRun(cpu213)
	before := hashTree(t, b.out)
	b.edit("cpu/wide.cpp", "int", "// fake:hang\nint")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.opts.Observer = ObserverFunc(func(e Event) {
		if e.Type == EventStarted && strings.Contains(e.Action.Label, "wide") {
			cancel()
		}
	})
	res, err := b.runPlan(ctx, b.plan(cpu213))
	if !errors.Is(err, context.Canceled) || res.Variants[0].Err == nil {
		t.Errorf("%v %+v", err, res)
	}
	if diff := cmp.Diff(before, hashTree(t, b.out)); diff != "" {
		t.Errorf("the old folder has changed: %s", diff)
	}
}

// Warnings are shown again when the result comes from the cache.
func TestWarningsReplay(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.edit("cpu/wide.cpp", "int", "// fake:warn\nint")
	for range 2 {
		b.mustRun(cpu213)
		n := 0
		for _, e := range b.events {
			if e.Result != nil && strings.Contains(string(e.Result.Log), "told to warn") {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d warnings, want 1", n)
		}
	}
}

// A blob that has gone from the cache, or is damaged, is made again.
func TestDamagedCacheHeals(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.mustRun(cpu213)
	want := hashTree(t, b.out)
	for _, damage := range []func(string){
		func(p string) { os.Remove(p) },
		func(p string) {
			fi, _ := os.Stat(p)
			os.Chmod(p, 0o644)
			os.WriteFile(p, []byte(strings.Repeat("x", int(fi.Size()))), 0o644)
		},
		func(p string) { os.Truncate(p, 3) },
	} {
		os.RemoveAll(b.out)
		blobs, _ := filepath.Glob(filepath.Join(b.cache.Dir(), "cas/*/*"))
		for _, p := range blobs {
			damage(p)
		}
		// A fresh process has checked nothing yet.
		fresh := *b
		fresh.cache = reopen(t, b)
		fresh.exec = &local.Executor{Scratch: fresh.cache.Scratch(), Resolve: b.exec.Resolve}
		fresh.mustRun(cpu213)
		if diff := cmp.Diff(want, hashTree(t, b.out)); diff != "" {
			t.Errorf("after the damage: %s", diff)
		}
	}
}

// Two builds at once into one folder through one cache.
func TestTwoBuildsAtOnce(t *testing.T) {
	b := newBench(t, t.TempDir())
	two := *b
	two.cache = reopen(t, b)
	two.exec = &local.Executor{Scratch: two.cache.Scratch(), Resolve: b.exec.Resolve}
	var bad atomic.Int32
	done := make(chan bool)
	for _, x := range []*bench{b, &two} {
		go func() {
			if _, err := x.run(cpu213, cpu211, arm213); err != nil {
				t.Error(err)
				bad.Add(1)
			}
			done <- true
		}()
	}
	<-done
	<-done
	for _, v := range []string{cpu213, cpu211, arm213} {
		if _, err := manifests.VerifyVariant(context.Background(), filepath.Join(b.out, v)); err != nil {
			t.Error(err)
		}
	}
}

// Parts of the last build are what a shard is balanced by: named alike for all
// variants that need an action, and gone when a variant needs it no more.
func TestHistoryParts(t *testing.T) {
	b := newBench(t, t.TempDir())
	dir := t.TempDir()
	build := func(names ...string) *History {
		h := OpenHistory(dir, b.kernel.Dir)
		if _, err := b.plan(names...).Run(t.Context(), RunOptions{Executor: b.exec, Cache: b.cache, History: h}); err != nil {
			t.Fatal(err)
		}
		if err := h.Save(); err != nil {
			t.Fatal(err)
		}
		return OpenHistory(dir, b.kernel.Dir)
	}
	labels := func(ps []matrix.Part) map[string]bool {
		out := map[string]bool{}
		for _, p := range ps {
			if p.Seconds <= 0 {
				t.Errorf("%s took %v s", p.Name, p.Seconds)
			}
			out[p.Name] = true
		}
		return out
	}
	if ps := OpenHistory(dir, b.kernel.Dir).Parts(cpu213); ps != nil {
		t.Errorf("an empty history knows %v", ps)
	}
	h := build(cpu213, cpu211)
	newer, older := labels(h.Parts(cpu213)), labels(h.Parts(cpu211))
	shared := 0
	for l := range newer {
		if older[l] {
			shared++
		}
	}
	if shared == 0 || shared == len(newer) {
		t.Errorf("%d of %d parts are shared: %v, %v", shared, len(newer), newer, older)
	}
	// A later build of one variant alone, from the cache, forgets nothing of the other.
	if h = build(cpu213); len(h.Parts(cpu211)) != len(older) || len(h.Parts(cpu213)) != len(newer) {
		t.Errorf("%v, %v", h.Parts(cpu213), h.Parts(cpu211))
	}
	h.remember(&Plan{variants: []*variantPlan{{name: cpu213}}})
	if ps := h.Parts(cpu213); len(ps) != 0 || len(h.Parts(cpu211)) != len(older) {
		t.Errorf("a plan without actions still needs %v", ps)
	}
}
