package tests

import (
	"bytes"
	"debug/elf"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// smallKernel compiles in a moment.
var smallKernel = map[string]string{
	"build.toml": strings.ReplaceAll(bigKernel["build.toml"], `"big"`, `"small"`),
	"one.cpp":    "extern \"C\" int small_one(int x) { return x + 1; }\n",
	"two.cpp":    "extern \"C\" int small_two(int x) { return x + 2; }\n",

	"torch-ext/small/__init__.py": "from ._ops import ops\n",
	"torch-ext/torch_binding.cpp": "#include \"registration.h\"\nREGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n",
}

func init() {
	smallKernel["build.toml"] = strings.ReplaceAll(smallKernel["build.toml"], "[kernel.big]", "[kernel.small]")
}

// ownTools leaves in the store what was fetched. What is made on this machine
// is made again.
func (b *realBuild) ownTools() {
	b.t.Helper()
	for _, entry := range b.tools("*") {
		name := filepath.Base(entry)
		if strings.HasPrefix(name, "zig-0") || strings.HasPrefix(name, "torch-include-2.13") {
			continue
		}
		if err := os.Remove(entry); err != nil {
			b.t.Fatal(err)
		}
	}
}

// TestCompilerRuntime builds in a store that lacks the compiler's runtime
// library. A kernel that takes nothing from it does without, one that converts
// half precision on the baseline has it made, and both get the bytes that a
// store with everything gives.
func TestCompilerRuntime(t *testing.T) {
	bare, full := newRealBuild(t, smallKernel), newRealBuild(t, smallKernel)
	bare.ownTools()
	full.ownTools()
	fetch := full.args()
	if code, out := full.run([]string{fetch[0], "-C", full.kernel, "--store", full.store, "--offline", "toolchain", "fetch", "--variant", realVariant}); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	if found := full.tools("link-x86_64-*"); len(found) != 1 {
		t.Fatalf("toolchain fetch left out what a link names: %q", found)
	}
	library := func(b *realBuild) string {
		t.Helper()
		if code, out := b.run(b.args()); code != 0 {
			t.Fatalf("exit code %d\n%s", code, out)
		}
		found, _ := filepath.Glob(filepath.Join(b.kernel, "build", realVariant, "*.so"))
		if len(found) != 1 {
			t.Fatalf("%d libraries", len(found))
		}
		return found[0]
	}
	same := func(what string) string {
		t.Helper()
		a, b := library(bare), library(full)
		x, err := os.ReadFile(a)
		if err != nil {
			t.Fatal(err)
		}
		if y, err := os.ReadFile(b); err != nil || !bytes.Equal(x, y) || filepath.Base(a) != filepath.Base(b) {
			t.Errorf("%s: %s and %s differ (%v)", what, a, b, err)
		}
		return a
	}
	same("nothing of the runtime")
	if found, _ := filepath.Glob(filepath.Join(bare.store, "tools", "link-x86_64-*")); len(found) != 0 {
		t.Errorf("made for nobody: %q", found)
	}
	for _, b := range []*realBuild{bare, full} {
		b.write("one.cpp", `extern "C" float small_one(_Float16 x) { return x; }
extern "C" float (*const volatile small_keep)(_Float16) = small_one;
__attribute__((constructor)) static void call() { (void)small_keep(1); }
`)
	}
	lib := same("a conversion of half precision")
	if found := bare.tools("link-x86_64-*"); len(found) != 1 {
		t.Errorf("entries with the runtime: %q", found)
	}
	f, err := elf.Open(lib)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	syms, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range syms {
		if s.Name == "__extendhfsf2" {
			t.Error("__extendhfsf2 is left to whoever loads the library")
		}
	}
}

// TestOffline works in a network namespace that has no network, not even a
// loopback: with --offline everything goes on once it was fetched, and what was
// not fetched is named.
func TestOffline(t *testing.T) {
	var ns []string
	for _, args := range [][]string{{"-n"}, {"-r", "-n"}} {
		if exec.Command("unshare", append(args, "true")...).Run() == nil {
			ns = append([]string{"unshare"}, args...)
			break
		}
	}
	if ns == nil {
		t.Skip("this user may not make a network namespace")
	}
	b := newRealBuild(t, smallKernel)
	b.ownTools()
	command := func(args ...string) []string {
		all := b.args()
		return append(append(ns[:len(ns):len(ns)], all[:5]...), args...) // -C and --store, without --offline
	}
	for _, args := range [][]string{
		{"matrix", "--variant", realVariant},
		{"--offline", "toolchain", "fetch", "--variant", realVariant},
		{"--offline", "build", "-n", "--variant", realVariant},
		{"--offline", "build", "--variant", realVariant},
		{"--offline", "explain", realVariant},
		{"--offline", "doctor"},
		// toolchain.lock pins everything now, so even this needs no index.
		{"build", "--variant", realVariant},
	} {
		if code, out := b.run(command(args...)); code != 0 {
			t.Errorf("%v: exit code %d\n%s", args, code, out)
		}
	}
	if !b.built() {
		t.Error("nothing was built")
	}
	missing := []string{"--variant", "torch211-cxx11-cpu-x86_64-linux"}
	code, out := b.run(command(append([]string{"--offline", "build"}, missing...)...))
	if code != 1 || !strings.Contains(out, "torch") || !strings.Contains(out, "hint: ") || !strings.Contains(out, "--offline") {
		t.Errorf("headers that were never fetched: exit code %d\n%s", code, out)
	}
	if code, out = b.run(command(append([]string{"--index-url", "http://127.0.0.1:9/", "build"}, missing...)...)); code != 1 || !strings.Contains(out, "127.0.0.1:9") {
		t.Errorf("an index that can't be reached: exit code %d\n%s", code, out)
	}
}

// TestTwoBuilds starts two processes at once on one empty store and one build
// folder. Both succeed, and together they do the work of one.
func TestTwoBuilds(t *testing.T) {
	b := newRealBuild(t, smallKernel)
	b.ownTools()
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			if code, out := b.run(b.args()); code != 0 {
				t.Errorf("build %d: exit code %d\n%s", i, code, out)
			}
		})
	}
	wg.Wait()
	if code, out := b.run(b.args()); code != 0 || !strings.Contains(out, "\n0 actions ran") {
		t.Errorf("a third build: exit code %d\n%s", code, out)
	}
	b.nothingLeft()
}

// nothingLeft fails for what an ended process should have removed.
func (b *realBuild) nothingLeft() {
	b.t.Helper()
	for _, pattern := range []string{"tmp/*", "cache/scratch/p*/x*"} {
		if found, _ := filepath.Glob(filepath.Join(b.store, pattern)); len(found) > 0 {
			b.t.Errorf("left in the store: %v", found)
		}
	}
	if found, _ := filepath.Glob(filepath.Join(b.kernel, "build", ".thoxbuild-*")); len(found) > 0 {
		b.t.Errorf("left in build/: %v", found)
	}
}

// TestKilledBuild kills real builds with SIGKILL at seeded moments, while the
// store makes its tools, while compilers run and while the folder is put
// together. What is there is whole, and the next build ends as if nothing had
// been.
func TestKilledBuild(t *testing.T) {
	runs := 6
	if os.Getenv("THOXBUILD_TEST_FULL") == "1" {
		runs = 40
	}
	clean := newRealBuild(t, smallKernel)
	clean.ownTools()
	start := time.Now()
	if code, out := clean.run(clean.args()); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	whole := time.Since(start)
	want, err := os.ReadFile(filepath.Join(clean.kernel, "build", realVariant, "metadata.json"))
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	rng := rand.New(rand.NewPCG(11, 13))
	b := newRealBuild(t, smallKernel)
	b.ownTools()
	for i := range runs {
		// Each run has something to do: tools to make, code to compile, or a
		// folder to put together from what is cached.
		switch i % 3 {
		case 0:
			for _, name := range []string{"overlay-*", "libstdcxx-*", "link-*"} {
				found, _ := filepath.Glob(filepath.Join(b.store, "tools", name))
				for _, f := range found {
					os.RemoveAll(f)
				}
			}
		case 1:
			b.write("one.cpp", fmt.Sprintf("extern \"C\" int small_one(int x) { return x + %d; }\n", i))
		case 2:
			os.RemoveAll(filepath.Join(b.kernel, "build"))
		}
		args := b.args()
		cmd := exec.Command(args[0], args[1:]...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rng.Int64N(int64(whole) / 2)))
		_ = cmd.Process.Kill()
		if cmd.Wait() != nil {
			killed++
		}
		if !b.built() {
			continue
		}
		exe := args[0]
		if out, err := exec.Command(exe, "verify", "--dir", filepath.Join(b.kernel, "build")).CombinedOutput(); err != nil {
			t.Errorf("after kill %d: %v\n%s", i, err, out)
		}
	}
	b.write("one.cpp", smallKernel["one.cpp"])
	if code, out := b.run(b.args()); code != 0 {
		t.Fatalf("after %d kills: exit code %d\n%s", killed, code, out)
	}
	got, err := os.ReadFile(filepath.Join(b.kernel, "build", realVariant, "metadata.json"))
	if err != nil || string(got) != string(want) {
		t.Errorf("after %d kills, other metadata (%v):\n%s\nexpected\n%s", killed, err, got, want)
	}
	if found, _ := filepath.Glob(filepath.Join(b.kernel, "build", ".thoxbuild-*")); len(found) > 0 {
		t.Errorf("left in build/: %v", found)
	}
	t.Logf("%d of %d builds were killed, an undisturbed one takes %v", killed, runs, whole.Round(time.Millisecond))
	if killed == 0 {
		t.Error("no build was killed while it ran")
	}
}
