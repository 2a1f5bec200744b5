package load

import (
	"context"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ianlancetaylor/demangle"

	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/toolchain"
	"github.com/thox-ai/thoxbuild/toolchain/torchexports"
)

// required are the variants that must be there where THOXBUILD_TEST_BUILT is
// set, as `make test` does after it has built them.
var required = []string{"torch213-cxx11-cpu-x86_64-linux", "torch213-cxx11-cpu-aarch64-linux"}

// TestLoad loads the library of every variant in the build folder
// (THOXBUILD_TEST_BUILDS, or build/ of the tree) against stand-ins of the
// torch release that it is for.
func TestLoad(t *testing.T) {
	builds := os.Getenv("THOXBUILD_TEST_BUILDS")
	if builds == "" {
		builds = "../../build"
	}
	folders, err := filepath.Glob(filepath.Join(builds, "torch*-linux"))
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("THOXBUILD_TEST_BUILT") != "" {
		for _, name := range required {
			if !slices.Contains(folders, filepath.Join(builds, name)) {
				t.Errorf("%s was not built", name)
			}
		}
	}
	if len(folders) == 0 {
		t.Skip("no variant is built; run make kernel")
	}
	s, shared := openStore(t), t.TempDir()
	for _, dir := range folders {
		name, err := manifests.ParseVariantName(filepath.Base(dir))
		if err != nil {
			t.Error(err)
			continue
		}
		t.Run(filepath.Base(dir), func(t *testing.T) { loadVariant(t, s, name, dir, shared) })
	}
}

func openStore(t *testing.T) *toolchain.Store {
	t.Helper()
	dir := os.Getenv("THOXBUILD_STORE")
	if dir == "" {
		t.Skip("THOXBUILD_STORE is not set: the stand-ins are compiled with its compilers")
	}
	lock, err := toolchain.ReadLock("../../toolchain.lock")
	if err != nil {
		t.Fatal(err)
	}
	s, err := toolchain.Open(toolchain.Options{Dir: dir, Lock: lock, Log: t.Logf, Offline: os.Getenv("THOXBUILD_TEST_NETWORK") == ""})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

func loadVariant(t *testing.T, s *toolchain.Store, name manifests.VariantName, dir, shared string) {
	libs, err := filepath.Glob(filepath.Join(dir, "*.so"))
	if err != nil || len(libs) != 1 {
		t.Fatalf("libraries %q, %v; expected one", libs, err)
	}
	cc, run, err := Target(name.Platform.Arch)
	if err != nil {
		t.Skip(err)
	}
	exports, err := torchexports.Find(name.Version, name.Compute, name.Platform)
	if err != nil || exports == nil {
		t.Fatalf("no table of torch %v %v: %v", name.Version, name.Compute, err)
	}
	kit, err := s.Kit(t.Context(), toolchain.Request{Torch: name.Version, Compute: name.Compute, Platform: name.Platform})
	if err != nil {
		t.Fatal(err)
	}
	b := &Bench{Store: s, Kit: kit, CC: cc, Run: run, Dir: t.TempDir(), Shared: shared}
	b.Loader = filepath.Join(b.Dir, "loader")
	command(t, cc, "-O1", "-o", b.Loader, "testdata/loader.c", "-ldl")
	if rt := Runtime(s, kit); rt != "" {
		linkAll(t, filepath.Join(rt, "libcudart.so.*"), b.Dir)
	}
	f, err := elf.Open(libs[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stubs, missing, err := Plan(f, exports)
	if err != nil || len(missing) > 0 {
		t.Fatalf("torch %v does not export %q: %v", name.Version, missing, err)
	}
	for i := range stubs {
		if err := b.Make(t.Context(), &stubs[i]); err != nil {
			t.Fatal(err)
		}
	}
	out, err := b.Load(t.Context(), libs[0])
	if err != nil {
		t.Fatalf("loading it: %v\n%s", err, out)
	}
	checkRegistration(t, out)
	loadWithout(t, b, stubs, libs[0])
}

// checkRegistration expects that the initialisers ran: each operator of the
// kernel was given to torch.
func checkRegistration(t *testing.T, out string) {
	t.Helper()
	for _, op := range []string{"rms_norm(", "fused_add_rms_norm(", "silu_and_mul(", "gelu_tanh_and_mul(", "rotary_embedding(", "qk_norm_rope("} {
		if !strings.Contains(out, "schema "+op) {
			t.Errorf("%s...) was not registered", op)
		}
	}
	for _, want := range []string{"loaded\n", "initialised\n", "call PyModule_Create2\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if t.Failed() {
		t.Logf("the loader said\n%s", out)
	}
}

// loadWithout takes one name away, as a release without it would: the same
// library must not load then, and the dynamic linker must name it.
func loadWithout(t *testing.T, b *Bench, stubs []Stub, library string) {
	t.Helper()
	for i := range stubs {
		s := stubs[i]
		if !strings.HasPrefix(s.Soname, "libtorch") && !strings.HasPrefix(s.Soname, "libc10") || len(s.Names) == 0 {
			continue
		}
		gone := s.Names[slices.IndexFunc(s.Names, func(n string) bool { return parserOf(demangle.Filter(n)) == nil })]
		s.Names = slices.DeleteFunc(slices.Clone(s.Names), func(n string) bool { return n == gone })
		if err := b.Make(t.Context(), &s); err != nil {
			t.Fatal(err)
		}
		out, err := b.Load(t.Context(), library)
		if err == nil || !strings.Contains(out, "undefined symbol: "+gone) {
			t.Errorf("without %s: %v\n%s", gone, err, out)
		}
		return
	}
	t.Error("no stand-in of torch defines a name")
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func linkAll(t *testing.T, pattern, dir string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	for _, f := range files {
		if err := os.Symlink(f, filepath.Join(dir, filepath.Base(f))); err != nil {
			t.Fatal(err)
		}
	}
}
