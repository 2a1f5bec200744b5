package metal_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// atLeast is the number of cases of the paper's suite.
const atLeast = 438

// harnessFiles do not see the shaders; shaders.cpp includes them.
var harnessFiles = []string{"fibres", "memory", "suite", "norm_cases", "gate_cases", "rotary_cases"}

// compileFlags are for a part of the harness, with the shaders of a folder.
func (c *clang) compileFlags(metal string) []string {
	flags := []string{"-std=c++17", "-O1", "-g1", "-ffp-contract=off", "-Wall", "-Wno-unknown-attributes", "-Wno-unknown-pragmas",
		"-I", "msl", "-I", "harness", "-I", metal}
	if c.sanitizer {
		flags = append(flags, "-fsanitize=address")
	}
	return flags
}

// buildHarness compiles everything but the shaders, once for all programs that
// a test makes of it.
func buildHarness(t *testing.T, c *clang, dir string) (objects []string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the harness's fibres need the ucontext functions of Linux; on a Mac use mac.sh")
	}
	for _, f := range harnessFiles {
		o := filepath.Join(dir, f+".o")
		args := append(c.compileFlags(shaders), "-c", filepath.Join("harness", f+".cpp"), "-o", o)
		mustRun(t, c.command(t, args...))
		objects = append(objects, o)
	}
	return objects
}

// buildSuite compiles the shaders of a folder and links the suite.
func buildSuite(t *testing.T, c *clang, metal string, objects []string) (program string) {
	t.Helper()
	dir := t.TempDir()
	o, program := filepath.Join(dir, "shaders.o"), filepath.Join(dir, "suite")
	mustRun(t, c.command(t, append(c.compileFlags(metal), "-c", "harness/shaders.cpp", "-o", o)...))
	link := append(append([]string(nil), c.linker[1:]...), "-o", program, o)
	if c.sanitizer {
		link = append(link, "-fsanitize=address")
	}
	mustRun(t, exec.CommandContext(t.Context(), c.linker[0], append(link, objects...)...))
	return program
}

// runSuite returns what the suite printed, and its error if a case failed, a
// trap was hit or it did not end. With --first it ends with the first case that
// fails.
func runSuite(t *testing.T, program string, args ...string) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	// The fibres' stacks are not what the sanitizer's second stack is for.
	cmd.Env = append(os.Environ(), "ASAN_OPTIONS=detect_stack_use_after_return=0:allow_user_segv_handler=0")
	return cmd.CombinedOutput()
}

var totals = regexp.MustCompile(`(?m)^(\d+) cases, (\d+) failed$`)

// TestShaders runs the suite of cases on the shaders as they are.
func TestShaders(t *testing.T) {
	c := needClang(t)
	program := buildSuite(t, c, shaders, buildHarness(t, c, t.TempDir()))
	out, err := runSuite(t, program)
	if err != nil {
		var failed [][]byte
		lines := bytes.SplitAfter(out, []byte("\n"))
		for i, l := range lines {
			if bytes.Contains(l, []byte("FAIL")) && i > 0 && len(failed) < 40 {
				failed = append(failed, lines[i-1], l)
			}
		}
		t.Fatalf("%v\n%s\n%s", err, bytes.Join(failed, nil), tail(out))
	}
	m := totals.FindSubmatch(out)
	if m == nil {
		t.Fatalf("the suite printed no totals:\n%s", tail(out))
	}
	if n, _ := strconv.Atoi(string(m[1])); n < atLeast {
		t.Errorf("%d cases, expected at least %d", n, atLeast)
	}
	for _, op := range []string{"rms_norm", "fused_add_rms_norm", "silu_and_mul", "gelu_tanh_and_mul", "rotary_embedding", "qk_norm_rope"} {
		line := regexp.MustCompile(`(?m)^threadgroups of ` + op + `: 32 .* 1024$`).Find(out)
		if line == nil {
			t.Errorf("%s did not run with 32 to 1024 threads in a threadgroup", op)
			continue
		}
		t.Logf("%s", line)
	}
	sanitizer := "without AddressSanitizer (" + strings.Join(c.args, " ") + " cannot link it), pages without access only"
	if c.sanitizer {
		sanitizer = "under AddressSanitizer, no finding"
	}
	t.Logf("%s, %s", m[0], sanitizer)
}
