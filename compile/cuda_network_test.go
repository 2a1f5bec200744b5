package compile_test

import (
	"bytes"
	"context"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/abicheck"
	"github.com/thox-ai/thoxbuild/abicheck/elffile"
	"github.com/thox-ai/thoxbuild/abicheck/facts"
	"github.com/thox-ai/thoxbuild/compile"
	"github.com/thox-ai/thoxbuild/compile/cache"
	"github.com/thox-ai/thoxbuild/compile/local"
	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/matrix"
	"github.com/thox-ai/thoxbuild/toolchain"
)

// TestCUDAKits builds a kernel with the real compiler of each CUDA release for
// each processor, twice in different folders, and expects equal bytes.
func TestCUDAKits(t *testing.T) {
	if os.Getenv("THOXBUILD_TEST_NETWORK") == "" {
		t.Skip("set THOXBUILD_TEST_NETWORK=1: this test fetches 500 MB from the package index and compiles for a minute")
	}
	dir := os.Getenv("THOXBUILD_STORE")
	if dir == "" {
		dir = t.TempDir()
	}
	s, err := toolchain.Open(toolchain.Options{Dir: dir, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	for _, name := range []string{
		"torch213-cxx11-cu126-x86_64-linux", "torch213-cxx11-cu126-aarch64-linux",
		"torch213-cxx11-cu130-x86_64-linux", "torch213-cxx11-cu130-aarch64-linux",
		"torch213-cxx11-cu132-x86_64-linux", "torch213-cxx11-cu132-aarch64-linux",
	} {
		t.Run(name, func(t *testing.T) {
			first, second := buildCUDA(t, s, name, t.TempDir(), ""), buildCUDA(t, s, name, filepath.Join(t.TempDir(), "a longer", "way"), "")
			for file, b := range first {
				if !bytes.Equal(b, second[file]) {
					t.Errorf("%s differs between two folders", file)
				}
			}
			if len(first) != len(second) {
				t.Errorf("%d files and %d files", len(first), len(second))
			}
			checkCUDALibrary(t, name, first)
			loadCUDALibrary(t, name, first)
			archs := []string{"8.0", "9.0a", "12.0", "12.0+PTX"}
			if strings.Contains(name, "-cu126-") { // older than 12.0, which is left out
				archs = archs[:2]
			}
			checkArchs(t, first, archs...)
			if found := archFindings(t, first); len(found) > 0 {
				t.Errorf("abicheck: %q", found)
			}
		})
	}
	t.Run("lost architecture", func(t *testing.T) {
		const name = "torch213-cxx11-cu130-x86_64-linux"
		claimed, built := buildCUDA(t, s, name, t.TempDir(), ""), buildCUDA(t, s, name, t.TempDir(), `"8.0", `)
		checkArchs(t, built, "9.0a", "12.0", "12.0+PTX")
		if found := archFindings(t, built); len(found) > 0 {
			t.Errorf("with its own metadata: %q", found)
		}
		built[manifests.MetadataFile] = claimed[manifests.MetadataFile]
		want := []string{"metadata.json claims 8.0; the file holds 9.0a, 12.0, 12.0+PTX"}
		if found := archFindings(t, built); !slices.Equal(found, want) {
			t.Errorf("with the metadata of another build: %q, expected %q", found, want)
		}
	})
}

// checkArchs expects a library that holds code for exactly these.
func checkArchs(t *testing.T, files map[string][]byte, want ...string) {
	t.Helper()
	for file, b := range files {
		if !strings.HasSuffix(file, ".so") {
			continue
		}
		f, err := elffile.New(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		entries, err := facts.FatbinArchs(f)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range entries {
			got = append(got, e.Capability())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s holds code for %q, expected %q", file, got, want)
		}
	}
}

// archFindings lists what abicheck says of the architectures of a variant.
func archFindings(t *testing.T, files map[string][]byte) []string {
	t.Helper()
	dir := t.TempDir()
	for file, b := range files {
		if err := os.WriteFile(filepath.Join(dir, file), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r, err := abicheck.Check(t.Context(), []string{dir}, &abicheck.Options{Only: []string{"CUDA-ARCHS", "CUDA-PTX", "FORMAT"}, FactsOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, f := range r.Findings {
		if f.Severity != abicheck.Error {
			t.Errorf("%s is a mere %v", f.Message, f.Severity)
		}
		found = append(found, f.Message)
	}
	return found
}

// buildCUDA builds one variant of the test kernel with a cache of its own and
// returns the files of its folder. What is to be left out of its build.toml may
// be empty.
func buildCUDA(t *testing.T, s *toolchain.Store, name, dir, without string) map[string][]byte {
	t.Helper()
	kernelDir := filepath.Join(dir, "kernel")
	if err := os.CopyFS(kernelDir, os.DirFS("testdata/cuda")); err != nil {
		t.Fatal(err)
	}
	if without != "" {
		file := filepath.Join(kernelDir, "build.toml")
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(b, []byte(without)) {
			t.Fatalf("%s has no %s", file, without)
		}
		if err := os.WriteFile(file, bytes.Replace(b, []byte(without), nil, 1), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	project, err := manifests.Load(kernelDir)
	if err != nil {
		t.Fatal(err)
	}
	vs, err := matrix.Expand(project.Kernels[0], project.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	matrix.Decide(vs, func(n matrix.Need) error { return toolchain.Available(t.Context(), n) })
	if vs, err = matrix.Select(vs, []string{name}); err != nil {
		t.Fatal(err)
	}
	if !vs[0].Buildable {
		t.Skip(vs[0].Reason)
	}
	plan, err := compile.NewPlan(compile.Config{
		Kernel: project.Kernels[0], Workspace: project.Workspace, Variants: vs, OutDir: filepath.Join(dir, "out"), Builder: "test",
		Tools: func(v matrix.Variant) (*compile.Toolset, error) {
			kit, err := s.Kit(context.Background(), toolchain.Request{Torch: v.Torch, Compute: v.Compute, Platform: v.Platform})
			if err != nil {
				return nil, err
			}
			return compile.FromKit(kit, v.Torch), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cache.Open(t.Context(), filepath.Join(dir, "cache"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	res, err := plan.Run(t.Context(), compile.RunOptions{
		Executor: &local.Executor{Scratch: c.Scratch(), Resolve: s.Real, LocalEnv: s.LocalEnv}, Cache: c, Jobs: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	entries, err := os.ReadDir(res.Variants[0].Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if out[e.Name()], err = os.ReadFile(filepath.Join(res.Variants[0].Dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// checkCUDALibrary expects a library of the right machine that loads torch's
// runtime and carries device code, and none of this machine's folders.
func checkCUDALibrary(t *testing.T, name string, files map[string][]byte) {
	t.Helper()
	for file, b := range files {
		if !strings.HasSuffix(file, ".so") {
			continue
		}
		f, err := elf.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]elf.Machine{true: elf.EM_AARCH64, false: elf.EM_X86_64}[strings.Contains(name, "aarch64")]; f.Machine != want {
			t.Errorf("machine %v, expected %v", f.Machine, want)
		}
		libs, err := f.ImportedLibraries()
		if err != nil {
			t.Fatal(err)
		}
		cudart := map[bool]string{true: "libcudart.so.12", false: "libcudart.so.13"}[strings.Contains(name, "cu126")]
		for _, need := range []string{cudart, "libc10_cuda.so", "libtorch_cuda.so"} {
			if !slices.Contains(libs, need) {
				t.Errorf("needs %q, expected %s among them", libs, need)
			}
		}
		if f.Section(".nv_fatbin") == nil {
			t.Error("no device code")
		}
		dirs := []string{os.TempDir()}
		if home, err := os.UserHomeDir(); err == nil {
			dirs = append(dirs, home)
		}
		for _, d := range dirs {
			if bytes.Contains(b, []byte(d+"/")) {
				t.Errorf("the library names %s", d)
			}
		}
	}
}

// loadCUDALibrary loads the library in a real torch of the same CUDA, which
// needs no device: every symbol is bound at once.
func loadCUDALibrary(t *testing.T, name string, files map[string][]byte) {
	t.Helper()
	python := filepath.Join("..", ".venv", "bin", "python")
	have, err := exec.Command(python, "-c", "import torch, platform; print(torch.__version__[:4], torch.version.cuda, platform.machine())").Output()
	if err != nil || strings.TrimSpace(string(have)) != "2.13 13.0 x86_64" || !strings.Contains(name, "cu130-x86_64") {
		return // another torch than the one that this variant is for
	}
	for file, b := range files {
		if !strings.HasSuffix(file, ".so") {
			continue
		}
		lib := filepath.Join(t.TempDir(), file)
		if err := os.WriteFile(lib, b, 0o644); err != nil {
			t.Fatal(err)
		}
		ops, _, _ := strings.Cut(file, ".")
		out, err := exec.Command(python, "-c", `
import sys, torch
torch.ops.load_library(sys.argv[1])
print(getattr(torch.ops, sys.argv[2]).scaled.default._schema)
print([l.split()[-1].split("/")[-1] for l in open("/proc/self/maps") if "cudart" in l][0])`, lib, ops).CombinedOutput()
		if want := "(Tensor x, float factor) -> Tensor\nlibcudart.so.13\n"; err != nil || !strings.HasSuffix(string(out), want) {
			t.Errorf("loading it in torch: %v\n%s", err, out)
		}
	}
}
