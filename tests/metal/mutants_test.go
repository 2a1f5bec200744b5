package metal_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// faults are seeded into the shaders one at a time, in the places where such
// code goes wrong. Each must occur in its file exactly once. Those that are
// marked are tried on every run, the others with THOXBUILD_TEST_FULL=1: each
// compiles the shaders anew.
var faults = []struct {
	name, file, from, to string
	always               bool
}{
	{"threadgroup barrier missing", "norm.metal",
		"    threadgroup_barrier(mem_flags::mem_threadgroup);\n", "", true},
	{"unguarded tail of a row", "common.h",
		"if (first + i < end) row[first + i] = v[i];", "row[first + i] = v[i];", true},
	{"read past the end of a row", "common.h",
		"if (first + i < end) v[i] = row[first + i];", "v[i] = row[first + i];", false},
	{"position at the end of the cache taken for inside", "rotary.h",
		"position >= p.cache_rows", "position > p.cache_rows", true},
	{"negative position taken for inside", "rotary.h",
		"if (position < 0 || ", "if (", false},
	{"position cut to 32 bits", "rotary.h",
		"reinterpret_cast<device const long*>(positions)[at]", "int(reinterpret_cast<device const long*>(positions)[at])", false},
	{"second pass reads x instead of the sum", "norm.metal",
		"kAdd ? static_cast<device const T*>(residual) : x;", "x;", false},
	{"gelu by a tanh that overflows", "gate.metal",
		"return x / (1.0f + precise::exp(-2.0f * y));",
		"const float e = precise::exp(2.0f * y); return 0.5f * x * (1.0f + (e - 1.0f) / (e + 1.0f));", true},
	{"sign of a sine", "rotary.h",
		"b = T(metal::fma(y, c, x * s));", "b = T(metal::fma(y, c, -(x * s)));", false},
	{"weight offset added after rounding", "common.h",
		"(float(weight[i]) + weight_offset)", "float(T(float(weight[i]) + weight_offset))", false},
	{"heads of k with q's stride", "rotary.h",
		"k + token * p.k_token_stride", "k + token * p.q_token_stride", false},
	{"simdgroup function in divergent code", "prologue.metal",
		"    sum = simd_sum(sum);\n", "    if (lane < 31) sum = simd_sum(sum);\n", false},
	{"a fixed number of threads", "rotary.metal",
		"group.x * threads.x + thread_index", "group.x * 128 + thread_index", false},
	{"a fixed number of simdgroups", "prologue.metal",
		"group.x * simdgroups + simdgroup", "group.x * 4 + simdgroup", true},
}

// TestFaults seeds faults into copies of the shaders and expects the suite to
// notice each.
func TestFaults(t *testing.T) {
	full := os.Getenv("THOXBUILD_TEST_FULL") != ""
	c := needClang(t)
	objects := buildHarness(t, c, t.TempDir())
	var tried, caught atomic.Int32
	t.Run("seeded", func(t *testing.T) {
		for _, f := range faults {
			t.Run(f.name, func(t *testing.T) {
				if !full && !f.always {
					t.Skip("set THOXBUILD_TEST_FULL=1 to seed this fault too")
				}
				t.Parallel()
				tried.Add(1)
				metal := filepath.Join(t.TempDir(), "metal")
				if err := os.CopyFS(metal, os.DirFS(shaders)); err != nil {
					t.Fatal(err)
				}
				// What the host code finds one folder up.
				args, err := os.ReadFile(filepath.Join(shaders, "..", "edge_ops_args.h"))
				if err == nil {
					err = os.WriteFile(filepath.Join(metal, "..", "edge_ops_args.h"), args, 0o666)
				}
				if err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(metal, f.file)
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if n := strings.Count(string(b), f.from); n != 1 {
					t.Fatalf("%s holds the place of this fault %d times, expected once", f.file, n)
				}
				if err := os.WriteFile(path, []byte(strings.Replace(string(b), f.from, f.to, 1)), 0o666); err != nil {
					t.Fatal(err)
				}
				out, err := runSuite(t, buildSuite(t, c, metal, objects), "--first")
				if err == nil {
					t.Fatalf("the suite passed")
				}
				caught.Add(1)
				t.Logf("caught: %s", firstComplaint(out))
			})
		}
	})
	t.Logf("%d of %d faults caught, %d were not tried", caught.Load(), tried.Load(), len(faults)-int(tried.Load()))
}

// firstComplaint is the line that says what was wrong, after its case.
func firstComplaint(out []byte) string {
	lines := strings.Split(string(out), "\n")
	for i, l := range lines {
		if strings.Contains(l, "FAIL") || strings.Contains(l, "ERROR: AddressSanitizer") {
			before := ""
			for j := i - 1; j >= 0 && before == ""; j-- {
				if !strings.HasPrefix(lines[j], "=") {
					before = lines[j]
				}
			}
			return before + ": " + strings.TrimSpace(l)
		}
	}
	if n := len(lines); n > 1 {
		return "died in " + lines[n-2]
	}
	return "died"
}
