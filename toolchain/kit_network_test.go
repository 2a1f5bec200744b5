package toolchain

import (
	"context"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/manifests"
)

// newerLibrary uses everything in the C++ library that easily pulls in symbols
// newer than manylinux_2_28 allows.
const newerLibrary = `
#include <charconv>
#include <condition_variable>
#include <filesystem>
#include <memory_resource>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>
#include <torch/library.h>
#include <ATen/ATen.h>
static std::string describe(double v, int64_t n) {
  std::ostringstream s;
  s << v << ' ' << std::filesystem::path("a/b").filename().string();
  std::vector<int64_t> xs;
  xs.reserve(n);
  for (int64_t i = 0; i < n; ++i) xs.push_back(i);
  std::mutex m;
  std::condition_variable c;
  bool ready = true;
  std::unique_lock<std::mutex> l(m);
  c.wait(l, [&] { return ready; });
  std::pmr::monotonic_buffer_resource pool;
  std::pmr::vector<int> p(&pool);
  p.push_back(7);
  const char* text = "2.5";
  double parsed = 0;
  std::from_chars(text, text + 3, parsed);
  s << ' ' << xs.size() << ' ' << p[0] << ' ' << parsed;
  return s.str();
}
at::Tensor twice(const at::Tensor& x) { return x + x; }
TORCH_LIBRARY(thox_kit_test, m) {
  m.def("describe(float v, int n) -> str", describe);
  m.def("twice(Tensor x) -> Tensor", twice);
}
`

// TestKitAgainstTorch builds an extension with a fresh kit from the network and
// loads it in the real torch.
func TestKitAgainstTorch(t *testing.T) {
	if os.Getenv("THOXBUILD_TEST_NETWORK") == "" {
		t.Skip("set THOXBUILD_TEST_NETWORK=1: this test fetches 115 MB from the package index")
	}
	dir := os.Getenv("THOXBUILD_STORE")
	if dir == "" {
		dir = t.TempDir()
	}
	s, err := Open(Options{Dir: dir, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	for _, arch := range []manifests.Arch{manifests.X86_64, manifests.AArch64} {
		t.Run(string(arch), func(t *testing.T) {
			kit, err := s.Kit(context.Background(), Request{
				Torch: manifests.MustVersion("2.13"), Compute: manifests.Compute{Backend: manifests.CPU},
				Platform: manifests.Platform{Arch: arch, OS: manifests.Linux},
			})
			if err != nil {
				t.Fatal(err)
			}
			work := t.TempDir()
			run := func(tool Tool, args ...string) {
				t.Helper()
				for i := range args {
					args[i] = s.Real(args[i])
				}
				cmd := exec.Command(args[0], args[1:]...)
				cmd.Dir = work
				cmd.Env = []string{"HOME=" + work}
				for k, v := range s.LocalEnv(map[string]string{"cxx": kit.CXX.Fingerprint}) {
					cmd.Env = append(cmd.Env, k+"="+v)
				}
				for k, v := range tool.Env {
					cmd.Env = append(cmd.Env, k+"="+s.Real(v))
				}
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
				}
			}
			if err := os.WriteFile(filepath.Join(work, "k.cpp"), []byte(newerLibrary), 0o644); err != nil {
				t.Fatal(err)
			}
			run(kit.TorchCXX, append(append([]string{}, kit.TorchCXX.Args...), "-O2", "-fvisibility=hidden", "-c", "k.cpp", "-o", "k.o")...)
			run(kit.Link.Tool, kit.Link.Command("k.so", []string{"k.o"}, nil)...)
			lib := filepath.Join(work, "k.so")
			checkVersions(t, lib)
			if fi, err := os.Stat(lib); err != nil || fi.Size() > 300<<10 {
				t.Errorf("the library has %d bytes, expected at most 300 KiB", fi.Size())
			}
			python := filepath.Join("..", ".venv", "bin", "python")
			if _, err := os.Stat(python); err != nil || arch != manifests.Arch(hostArch()) {
				return
			}
			out, err := exec.Command(python, "-c", `
import sys, torch
torch.ops.load_library(sys.argv[1])
x = torch.randn(4)
assert torch.equal(torch.ops.thox_kit_test.twice(x), x + x)
print(torch.ops.thox_kit_test.describe(1.5, 3))`, lib).CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != "1.5 b 3 7 2.5" {
				t.Errorf("loading it in torch: %v\n%s", err, out)
			}
		})
	}
}

func checkVersions(t *testing.T, lib string) {
	t.Helper()
	f, err := elf.Open(lib)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	needs, err := f.DynamicVersionNeeds()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range needs {
		for _, d := range n.Needs {
			family, number, _ := strings.Cut(d.Dep, "_")
			limit := map[string]string{"GLIBC": "2.28", "GLIBCXX": "3.4.24", "CXXABI": "1.3.11", "GCC": "7.0.0"}[family]
			if c, err := compareDotted(number, limit); err != nil || c > 0 {
				t.Errorf("needs %s of %s, newer than %s", d.Dep, n.Name, limit)
			}
			t.Logf("%s %s", n.Name, d.Dep)
		}
	}
	libs, _ := f.ImportedLibraries()
	t.Log(libs)
}
