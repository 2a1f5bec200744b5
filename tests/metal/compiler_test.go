package metal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const (
	kernels = "../../kernels-src/thox-edge-ops"
	shaders = kernels + "/metal"
)

// shaderFiles are the sources that a Mac compiles with its Metal compiler.
var shaderFiles = []string{"norm.metal", "gate.metal", "rotary.metal", "prologue.metal"}

// clang is a compiler that knows the vector extensions, fp16 and bf16.
type clang struct {
	args []string // of the compiler itself
	// sanitizer is true where AddressSanitizer works; linker then links it:
	// clang's own runtime is often missing where GCC's is installed.
	sanitizer bool
	linker    []string
}

// command is the compiler with arguments. Nothing of it outlives the test.
func (c *clang) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	all := append(append([]string(nil), c.args...), args...)
	return exec.CommandContext(t.Context(), all[0], all[1:]...)
}

var findClang = sync.OnceValues(func() (*clang, error) {
	var candidates [][]string
	if cxx := strings.Fields(os.Getenv("CXX")); len(cxx) > 0 {
		candidates = append(candidates, cxx)
	}
	candidates = append(candidates, []string{"clang++"})
	for v := 22; v >= 16; v-- {
		candidates = append(candidates, []string{fmt.Sprintf("clang++-%d", v)})
	}
	stored, _ := filepath.Glob("../../.cache/store/tools/zig-*/zig")
	for _, zig := range stored {
		if abs, err := filepath.Abs(zig); err == nil {
			candidates = append(candidates, []string{abs, "c++", "-fno-sanitize=all"})
		}
	}
	candidates = append(candidates, []string{"zig", "c++", "-fno-sanitize=all"})

	dir, err := os.MkdirTemp("", "metal")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	probe := filepath.Join(dir, "probe.cpp")
	// The standard library's inline functions need the library that they are of.
	const source = `#include <functional>
#include <string>
typedef __bf16 four __attribute__((ext_vector_type(4)));
four v;
_Float16 h;
std::function<std::string(int)> f = [](int n) { return std::to_string(n); };
int main() { return f(3) == "3" ? 0 : 1; }
`
	if err := os.WriteFile(probe, []byte(source), 0o666); err != nil {
		return nil, err
	}
	try := func(argv []string, args ...string) bool {
		cmd := exec.CommandContext(context.Background(), argv[0], append(append([]string(nil), argv[1:]...), args...)...)
		return cmd.Run() == nil
	}
	object, program := filepath.Join(dir, "probe.o"), filepath.Join(dir, "probe")
	for _, argv := range candidates {
		if _, err := exec.LookPath(argv[0]); err != nil || !try(argv, "-std=c++17", "-c", probe, "-o", object) {
			continue
		}
		c := &clang{args: argv, linker: argv}
		if try(argv, "-std=c++17", "-fsanitize=address", "-c", probe, "-o", object) {
			linkers := [][]string{argv, {"g++"}}
			if strings.HasPrefix(filepath.Base(argv[0]), "zig") {
				linkers = linkers[1:] // it has no runtime of the sanitizer, and would compile libc++ to find out
			}
			for _, linker := range linkers {
				if try(linker, "-fsanitize=address", object, "-o", program) && exec.Command(program).Run() == nil {
					c.sanitizer, c.linker = true, linker
					break
				}
			}
		}
		return c, nil
	}
	return nil, errors.New("no clang with bf16 vectors: install clang++ 16 or later, or let thoxbuild fetch zig into .cache/store")
})

// needClang skips the test where there is no compiler.
func needClang(t *testing.T) *clang {
	t.Helper()
	c, err := findClang()
	if err != nil {
		t.Skip(err)
	}
	return c
}

// check reports what the compiler says to a source, which it only reads. zig
// has no -fsyntax-only and is told to write the bitcode for a Mac instead.
func (c *clang) check(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	if strings.HasPrefix(filepath.Base(c.args[0]), "zig") {
		args = append([]string{"-target", "aarch64-macos.26.0", "-emit-llvm", "-c", "-o", filepath.Join(t.TempDir(), "out.bc")}, args...)
	} else {
		args = append([]string{"-fsyntax-only"}, args...)
	}
	return c.command(t, args...).CombinedOutput()
}

// mustCheck fails the test where the source does not compile.
func (c *clang) mustCheck(t *testing.T, args ...string) {
	t.Helper()
	if out, err := c.check(t, args...); err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, tail(out))
	}
}

// mustRun fails the test with the command's output.
func mustRun(t *testing.T, cmd *exec.Cmd) []byte {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, tail(out))
	}
	return out
}

// tail keeps a failure's output readable.
func tail(out []byte) []byte {
	if lines := bytes.SplitAfter(out, []byte("\n")); len(lines) > 60 {
		return bytes.Join(lines[len(lines)-60:], nil)
	}
	return out
}
