package abicheck_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/thox-ai/thoxbuild/abicheck"
	"github.com/thox-ai/thoxbuild/manifests"
)

// TestCompiled builds libraries with the real tools and holds that the verdict
// on each is what is expected, and the same after strip, for every rule.
func TestCompiled(t *testing.T) {
	cxx, err := exec.LookPath("g++")
	if err != nil {
		t.Skip("g++ is not installed")
	}
	strip, err := exec.LookPath("strip")
	if err != nil {
		t.Skip("strip is not installed")
	}
	v210 := manifests.MustVersion("2.10")
	opts := abicheck.Options{StableABI: &v210, FactsOnly: true}
	tests := []struct {
		name    string
		sources []string
		flags   []string
		want    []string // ids of warnings and errors
	}{
		{"clean", []string{"module.c"}, nil, nil},
		{"new glibc", []string{"module.c"}, []string{"-DNEW_GLIBC"}, []string{"MANYLINUX"}},
		{"new python", []string{"module.c"}, []string{"-DNEW_PYTHON"}, []string{"ABI3"}},
		{"unstable torch", []string{"module.c"}, []string{"-DUNSTABLE_TORCH"}, []string{"TORCH-STABLE"}},
		{"path", []string{"module.c"}, []string{"-DOWN_PATH"}, []string{"PATHS"}},
		{"export", []string{"module.c"}, []string{"-DEXPORT"}, []string{"EXPORTS"}},
		{"static tls", []string{"module.c"}, []string{"-DSTATIC_TLS"}, []string{"STATIC-TLS"}},
		{"executable stack", []string{"module.c", "noexec.S"}, nil, []string{"EXECSTACK"}},
		{"unique", []string{"module.c", "unique.cc"}, []string{"-fgnu-unique"}, []string{"EXPORTS", "UNIQUE"}},
		{"rpath", []string{"module.c"}, []string{"-Wl,-rpath,/tmp/build/torch/lib"}, []string{"RPATH"}},
		{"no relro", []string{"module.c"}, []string{"-Wl,-z,norelro"}, []string{"RELRO"}},
		{"program loader", []string{"module.c"}, []string{"-DLOADER"}, []string{"INTERP"}},
		{"relocation of code", []string{"module.c"}, []string{"-DTEXT_RELOCATION", "-Wl,-z,notext"}, []string{"TEXTREL"}},
		{"writable code", []string{"module.c"}, []string{"-nostdlib", "-Wl,-N", "-Wl,-z,norelro"}, []string{"RELRO", "WX"}},
		{"packed relocations", []string{"module.c"}, []string{"-DOWN_PATH", "-Wl,-z,pack-relative-relocs"}, []string{"MANYLINUX", "PATHS"}},
		{"all at once", []string{"module.c", "noexec.S"}, []string{"-DNEW_GLIBC", "-DNEW_PYTHON", "-DUNSTABLE_TORCH", "-DEXPORT"},
			[]string{"ABI3", "EXECSTACK", "EXPORTS", "MANYLINUX", "TORCH-STABLE"}},
	}
	dir := t.TempDir()
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out := filepath.Join(dir, string(rune('a'+i)), "_k.abi3.so")
			if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
				t.Fatal(err)
			}
			args := []string{"-O1", "-shared", "-fPIC", "-w", "-Wl,-z,now", "-Wl,--no-warn-execstack", "-o", out}
			args = append(args, tt.flags...)
			for _, s := range tt.sources {
				if strings.HasSuffix(s, ".c") {
					args = append(args, "-xc")
				} else {
					args = append(args, "-xnone")
				}
				args = append(args, filepath.Join("testdata", s))
			}
			if msg, err := exec.Command(cxx, args...).CombinedOutput(); err != nil {
				if strings.Contains(string(msg), "pack-relative-relocs") || strings.Contains(string(msg), "no-warn-execstack") {
					t.Skip("this linker is too old for the case")
				}
				t.Fatalf("%v\n%s", err, msg)
			}
			for _, stripped := range []bool{false, true} {
				if stripped {
					if msg, err := exec.Command(strip, out).CombinedOutput(); err != nil {
						t.Fatalf("strip: %v\n%s", err, msg)
					}
				}
				r, err := abicheck.Check(t.Context(), []string{out}, &opts)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, f := range r.Findings {
					if f.Severity >= abicheck.Warning {
						got = append(got, f.ID)
					}
				}
				slices.Sort(got)
				if diff := cmp.Diff(tt.want, slices.Compact(got)); diff != "" {
					t.Errorf("stripped %v (-want +got)\n%s", stripped, diff)
				}
			}
		})
	}
}

// torchLib finds the libraries of the installed torch.
func torchLib(t testing.TB) string {
	t.Helper()
	found, _ := filepath.Glob("../.venv/lib/python3*/site-packages/torch/lib")
	if len(found) == 0 {
		t.Skip("torch is not installed in .venv (make venv)")
	}
	return found[0]
}

// TestTorchItself holds that torch's own libraries, which load everywhere
// that their wheel says, get no error.
func TestTorchItself(t *testing.T) {
	r, err := abicheck.Check(t.Context(), []string{torchLib(t)}, &abicheck.Options{FactsOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Files) < 5 {
		t.Errorf("only %d libraries were found", len(r.Files))
	}
	for _, f := range r.Findings {
		if f.Severity == abicheck.Error {
			t.Errorf("%s: %s: %s", f.ID, f.Where(), f.Message)
		}
	}
}

// BenchmarkFacts is the facts pass on the largest library there is, 440 MB;
// bench/abicheck sets it beside kernel-abi-check.
func BenchmarkFacts(b *testing.B) {
	name := filepath.Join(torchLib(b), "libtorch_cpu.so")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := abicheck.Check(b.Context(), []string{name}, &abicheck.Options{FactsOnly: true}); err != nil {
			b.Fatal(err)
		}
	}
}
