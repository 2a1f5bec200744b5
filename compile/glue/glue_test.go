package glue

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// torchStub declares as much of torch's registration as the header uses, and
// prints what is registered.
const torchStub = `
#include <cstdint>
#include <cstdio>
#include <optional>
namespace c10 { enum class DispatchKey { CPU, CUDA }; }
namespace torch {
struct Library { enum Kind { DEF, IMPL, FRAGMENT }; };
namespace detail {
struct TorchLibraryInit {
  TorchLibraryInit(Library::Kind k, void (*fn)(Library &), const char *ns, std::optional<c10::DispatchKey> key, const char *, uint32_t) {
    std::printf("torch %d %s %d\n", int(k), ns, key ? int(*key) : -1);
    Library l;
    fn(l);
  }
};
}
namespace stable { namespace detail {
struct StableLibrary { enum class Kind { DEF, IMPL, FRAGMENT }; };
struct StableTorchLibraryInit {
  StableTorchLibraryInit(StableLibrary::Kind k, void (*fn)(StableLibrary &), const char *ns, const char *key, const char *, uint32_t) {
    std::printf("stable %d %s %s\n", int(k), ns, key ? key : "-");
    StableLibrary l;
    fn(l);
  }
};
}}}
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define TORCH_LIBRARY(ns, m) \
  static void init_##ns(torch::Library &); \
  static const torch::detail::TorchLibraryInit reg_##ns(torch::Library::DEF, &init_##ns, TEXT(ns), std::nullopt, "", 0); \
  void init_##ns(torch::Library &m)
#define TORCH_LIBRARY_IMPL(ns, k, m) \
  static void impl_##ns##k(torch::Library &); \
  static const torch::detail::TorchLibraryInit regi_##ns##k(torch::Library::IMPL, &impl_##ns##k, TEXT(ns), c10::DispatchKey::k, "", 0); \
  void impl_##ns##k(torch::Library &m)
`

const binding = `
#include "torch_stub.h"
#include "registration.h"
#define KEY CUDA
TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) { std::puts("def"); }
TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, KEY, ops) { std::puts("impl"); }
TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {}
TORCH_LIBRARY_EXPAND(somebody_elses, ops) {}
#ifdef STABLE
STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {}
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, KEY, ops) {}
#endif
REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
extern "C" void *PyModule_Create2(void *, int) { return nullptr; }
int main() { return 0; }
`

const ops = "_a_kernel_cpu_0123456789"

// bench is a folder with the generated files and a compiler.
func bench(t *testing.T, files map[string]string) (dir string, cxx func(args ...string) string) {
	t.Helper()
	gxx, err := exec.LookPath("g++")
	if err != nil {
		t.Skip("no g++ to compile the generated files with")
	}
	dir = t.TempDir()
	files["registration.h"], files["thoxbuild_module.h"] = string(Registration), string(Module)
	files["name.cpp"] = string(NameUnit(ops))
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir, func(args ...string) string {
		t.Helper()
		cmd := exec.Command(gxx, append([]string{"-Wall", "-Werror", "-Wno-unused-variable"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("g++ %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
}

// Both ways of naming the extension register the same things.
func TestRegistration(t *testing.T) {
	dir, cxx := bench(t, map[string]string{"torch_stub.h": torchStub, "binding.cpp": binding})
	cxx("-std=c++20", "-DTORCH_EXTENSION_NAME="+ops, "binding.cpp", "-o", "direct")
	cxx("-std=c++17", "-DTORCH_EXTENSION_NAME="+Placeholder, "-D"+LateMacro, "binding.cpp", "name.cpp", "-o", "late")
	cxx("-std=c++20", "-DSTABLE", "-DTORCH_EXTENSION_NAME="+Placeholder, "-D"+LateMacro, "binding.cpp", "name.cpp", "-o", "stable")
	output := func(name string) string {
		out, err := exec.Command(filepath.Join(dir, name)).CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	want := strings.ReplaceAll("torch 0 OPS -1\ndef\ntorch 1 OPS 1\nimpl\ntorch 1 OPS 0\ntorch 0 somebody_elses -1\n", "OPS", ops)
	for _, name := range []string{"direct", "late"} {
		if got := output(name); got != want {
			t.Errorf("%s registers\n%s\nwant\n%s", name, got, want)
		}
	}
	if got := output("stable"); got != want+"stable 0 "+ops+" -\nstable 1 "+ops+" CUDA\n" {
		t.Errorf("stable registers\n%s", got)
	}
}

// A source that includes Python.h declares the same function in another way.
func TestBesidePythonHeader(t *testing.T) {
	_, cxx := bench(t, map[string]string{
		"Python.h": `
#pragma once
typedef struct { long refs; } PyObject;
struct PyModuleDef { int x; };
extern "C" PyObject *PyModule_Create2(PyModuleDef *, int);
`,
		"both.cpp": "#include \"Python.h\"\n#include \"registration.h\"\nREGISTER_EXTENSION(TORCH_EXTENSION_NAME)\nREGISTER_EXTENSION(second)\n",
	})
	cxx("-std=c++17", "-DTORCH_EXTENSION_NAME="+ops, "-c", "both.cpp", "-o", "both.o")
}

// The module that the name unit makes is one to a real Python.
func TestPythonImportsTheModule(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 to import the module with")
	}
	dir, cxx := bench(t, map[string]string{})
	cxx("-std=c++20", "-fPIC", "-shared", "name.cpp", "-o", ops+".abi3.so")
	cmd := exec.Command(python, "-W", "error", "-c", "import sys; sys.path.insert(0, '.'); m = __import__(sys.argv[1]); print(m.__name__, m.__file__.endswith('.abi3.so'))", ops)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != ops+" True\n" {
		t.Errorf("%v: %s", err, out)
	}
}

func TestOpsPy(t *testing.T) {
	got := string(OpsPy(ops))
	for _, want := range []string{"from . import " + ops, "ops = torch.ops." + ops, `return f"` + ops + `::{op_name}"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nwant %q in it", got, want)
		}
	}
	if got := string(NoarchOpsPy("a_kernel", "0123")); !strings.Contains(got, `f"_a_kernel_{_backend()}_0123"`) {
		t.Error(got)
	}
}
