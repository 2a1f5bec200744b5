package abicheck_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/thox-ai/thoxbuild/abicheck"
)

// machoSource defines the module's init function, and something weak unless it
// is compiled with -fvisibility=hidden.
const machoSource = `
extern "C" int PyModule_Create2(void *, int);
#ifdef WRONG_TORCH
namespace c10 { int nowhere(); }
#define START c10::nowhere()
#else
#define START 1013
#endif
inline int weak(int x) { static int n; return n += x; }
extern "C" __attribute__((visibility("default"))) void *PyInit__k() { return (void *)(long)PyModule_Create2(nullptr, weak(START)); }
`

// TestCompiledMachO builds libraries for Apple silicon with zig, whose linker
// writes what Apple's does, and holds that the verdict on each is what is
// expected.
func TestCompiledMachO(t *testing.T) {
	found, _ := filepath.Glob("../.venv/lib/python3*/site-packages/ziglang/zig")
	if len(found) == 0 {
		t.Skip("zig is not in .venv (make venv installs it)")
	}
	zig, err := filepath.Abs(found[len(found)-1])
	if err != nil {
		t.Fatal(err)
	}
	const variant = "torch213-metal-aarch64-darwin"
	tests := []struct {
		name, minimum string
		compile, link []string
		edit          func([]byte)
		want, wantCPU []string // findings in a Metal variant, and in a CPU variant
	}{
		{name: "right", minimum: "26.0", compile: []string{"-fvisibility=hidden"}, link: []string{"-rpath", "@loader_path/lib"},
			wantCPU: []string{"error MACOS-MINOS: arm64: needs macOS 26.0; 15.0 is promised"}},
		{name: "too high, and all else", minimum: "26.4", compile: []string{"-DWRONG_TORCH"}, link: []string{"-rpath", "/Users/me/torch/lib"},
			want: []string{
				"error MACOS-MINOS: arm64: needs macOS 26.4; 26.0 is promised",
				`error MACOS-RPATH: LC_RPATH "/Users/me/torch/lib" is not relative to the file`,
				"error TORCH-UNDEF: needs _ZN3c107nowhereEv, which torch 2.13 does not export",
				"warning MACOS-WEAK: exports 1 weak definitions"},
			wantCPU: []string{
				"error MACOS-MINOS: arm64: needs macOS 26.4; 15.0 is promised",
				`error MACOS-RPATH: LC_RPATH "/Users/me/torch/lib" is not relative to the file`,
				"error TORCH-UNDEF: needs _ZN3c107nowhereEv, which torch 2.13 does not export",
				"warning MACOS-WEAK: exports 1 weak definitions"}},
		{name: "too low", minimum: "15.0", compile: []string{"-fvisibility=hidden"},
			want: []string{"warning MACOS-MINOS: arm64: says that it runs on macOS 15.0; Metal variants need 26.0"}},
		{name: "edited after it was signed", minimum: "26.0", compile: []string{"-fvisibility=hidden"},
			edit:    func(b []byte) { b[bytes.Index(b, []byte("_PyInit__k"))] = '-' },
			want:    []string{"error MACOS-SIGNATURE: has a broken code signature"},
			wantCPU: []string{"error MACOS-MINOS: arm64: needs macOS 26.0; 15.0 is promised", "error MACOS-SIGNATURE: has a broken code signature"}},
		{name: "unsigned", minimum: "15.0", compile: []string{"-fvisibility=hidden"},
			edit:    dropSignature,
			want:    []string{"error MACOS-SIGNATURE: has no code signature; macOS on arm64 refuses to load it", "warning MACOS-MINOS: arm64: says that it runs on macOS 15.0; Metal variants need 26.0"},
			wantCPU: []string{"error MACOS-SIGNATURE: has no code signature; macOS on arm64 refuses to load it"}},
	}
	dir := t.TempDir()
	built := map[string][]byte{}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			key := strings.Join(append(append([]string{tt.minimum}, tt.compile...), tt.link...), " ")
			if built[key] == nil {
				built[key] = buildMachO(t, zig, dir, "aarch64-macos."+tt.minimum, tt.compile, tt.link)
			}
			lib := bytes.Clone(built[key])
			if tt.edit != nil {
				tt.edit(lib)
			}
			for v, want := range map[string][]string{variant: tt.want, strings.Replace(variant, "metal", "cpu", 1): tt.wantCPU} {
				file := write(t, filepath.Join(t.TempDir(), v, "_k.abi3.so"), lib)
				write(t, filepath.Join(filepath.Dir(file), "metadata.json"), []byte("{}"))
				r, err := abicheck.Check(t.Context(), []string{filepath.Dir(file)}, &abicheck.Options{FactsOnly: true})
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, f := range r.Findings {
					if !strings.HasPrefix(f.ID, "MACOS-") && f.ID != "TORCH-UNDEF" {
						continue
					}
					message, _, _ := strings.Cut(f.Message, ": _k")
					if f.ID == "MACOS-SIGNATURE" && strings.Contains(message, "broken") {
						message, _, _ = strings.Cut(message, ":")
					}
					got = append(got, f.Severity.String()+" "+f.ID+": "+message)
				}
				slices.Sort(got)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got)\n%s", v, diff)
				}
			}
		})
	}
}

// buildMachO compiles and links machoSource.
func buildMachO(t *testing.T, zig, dir, target string, compile, link []string) []byte {
	t.Helper()
	source := write(t, filepath.Join(dir, "k.cpp"), []byte(machoSource))
	out := filepath.Join(dir, "k.so")
	object := filepath.Join(dir, "k.o")
	run := func(args ...string) {
		cmd := exec.CommandContext(t.Context(), zig, args...)
		cmd.Env = append(os.Environ(), "ZIG_GLOBAL_CACHE_DIR="+filepath.Join(dir, "cache"), "ZIG_LOCAL_CACHE_DIR="+filepath.Join(dir, "cache"))
		if msg, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, msg)
		}
	}
	run(append([]string{"c++", "-target", target, "-O1", "-g0", "-fno-sanitize=all", "-c", source, "-o", object}, compile...)...)
	run(append([]string{"build-lib", "-dynamic", "-fno-compiler-rt", "-fallow-shlib-undefined", "-fstrip", "-target", target,
		"--name", "k", "-femit-bin=" + out, object, "-lSystem"}, link...)...)
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// dropSignature empties LC_CODE_SIGNATURE, as a tool does that rewrites a file
// and does not sign it again.
func dropSignature(b []byte) {
	le := binary.LittleEndian
	at := 32
	for range le.Uint32(b[16:]) {
		if le.Uint32(b[at:]) == 0x1d {
			le.PutUint32(b[at+12:], 0)
			return
		}
		at += int(le.Uint32(b[at+4:]))
	}
	panic("the library has no signature to drop")
}
