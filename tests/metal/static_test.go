package metal_test

import (
	"bufio"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/manifests"
)

// The newest that a source may use: what the build passes as -std, and the
// macOS release that the loader of such kernels asks for.
var (
	newestMetal = manifests.Version{Major: 4, Minor: 0}
	newestMacOS = manifests.Version{Major: 26, Minor: 0}
)

// feature is one line of features.txt.
type feature struct {
	metal, macOS manifests.Version
	source       string
}

var featureLine = regexp.MustCompile(`^(#pragma METAL fp \w+|\S+)\s+(\d+)\.(\d+)\s+(\d+)(?:\.(\d+))?\s+(\S.*)$`)

func features(t *testing.T) map[string]feature {
	t.Helper()
	f, err := os.Open("features.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	out := map[string]feature{}
	s := bufio.NewScanner(f)
	for line := 1; s.Scan(); line++ {
		text := s.Text()
		if strings.TrimSpace(text) == "" || strings.HasPrefix(text, "#") && !strings.HasPrefix(text, "#pragma") {
			continue
		}
		m := featureLine.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("features.txt:%d: expected a name, a Metal version, a macOS version and a place: %s", line, text)
		}
		if _, ok := out[m[1]]; ok {
			t.Errorf("features.txt:%d: %s is listed twice", line, m[1])
		}
		out[m[1]] = feature{manifests.Version{Major: number(m[2]), Minor: number(m[3])},
			manifests.Version{Major: number(m[4]), Minor: number(m[5])}, m[6]}
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func newer(a, b manifests.Version) bool {
	return a.Major > b.Major || a.Major == b.Major && a.Minor > b.Minor
}

var (
	comment    = regexp.MustCompile(`//[^\n]*|(?s:/\*.*?\*/)|"(?:[^"\\\n]|\\.)*"`)
	identifier = regexp.MustCompile(`[A-Za-z_]\w*`)
	attribute  = regexp.MustCompile(`\[\[\s*(\w+)`)
	pragma     = regexp.MustCompile(`(?m)^\s*#pragma (METAL \w+ \w+|\w+)`)
)

// uses lists the names of a shader source that are Metal's: what the test
// headers define, attributes and pragmas.
func uses(source string, msl map[string]bool) map[string]bool {
	used := map[string]bool{}
	source = comment.ReplaceAllString(source, " ")
	for _, m := range pragma.FindAllStringSubmatch(source, -1) {
		if m[1] != "once" {
			used["#pragma "+m[1]] = true
		}
	}
	for _, m := range attribute.FindAllStringSubmatch(source, -1) {
		used["[["+m[1]+"]]"] = true
	}
	source = attribute.ReplaceAllString(source, " ")
	source = pragma.ReplaceAllString(source, " ")
	for _, name := range identifier.FindAllString(source, -1) {
		if msl[name] {
			used[name] = true
		}
	}
	return used
}

// mslNames are the names that a shader can only have from Metal: those of the
// test headers, without C++'s own and what only the headers themselves need.
func mslNames(t *testing.T) map[string]bool {
	t.Helper()
	b, err := os.ReadFile("msl/metal_stdlib")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{"metal_stdlib": true, "long": true}
	for _, name := range identifier.FindAllString(comment.ReplaceAllString(string(b), " "), -1) {
		names[name] = true
	}
	for _, own := range strings.Fields(`ifdef ifndef else endif define pragma once typedef unsigned int void float
		namespace template typename struct using enum class inline return const volatile address_space
		__attribute__ ext_vector_type vec_of type T N a b c v x flags mem_none MSL_ADDRESS_SPACES
		_Float16 __bf16 __builtin_fmaf __builtin_expf __builtin_sqrtf f`) {
		delete(names, own)
	}
	return names
}

// TestFeatures fails where a shader uses a name of Metal that features.txt does
// not list, or lists as newer than what the build asks for. A name that the test
// headers do not define does not get this far: TestAddressSpaces does not compile.
func TestFeatures(t *testing.T) {
	known, msl := features(t), mslNames(t)
	for name, f := range known {
		if newer(f.metal, newestMetal) || newer(f.macOS, newestMacOS) {
			t.Errorf("features.txt: %s needs Metal %v and macOS %v; the limits are %v and %v", name, f.metal, f.macOS, newestMetal, newestMacOS)
		}
	}
	seen := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(shaders, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		switch filepath.Base(file) {
		case "edge_ops_metal.h", "edge_ops_metal.mm", "plan.h": // host only
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for name := range uses(string(b), msl) {
			seen[name] = true
			if _, ok := known[name]; !ok {
				t.Errorf("%s uses %s, which features.txt does not list", file, name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if !seen[name] {
			t.Errorf("features.txt lists %s, which no shader uses", name)
		}
	}
	t.Logf("%d names of Metal in use, the newest from Metal %v", len(seen), newest(known))
}

func newest(known map[string]feature) (v manifests.Version) {
	for _, f := range known {
		if newer(f.metal, v) {
			v = f.metal
		}
	}
	return v
}

// TestFeaturesScan shows that the scan sees what it must not miss.
func TestFeaturesScan(t *testing.T) {
	got := uses("#pragma METAL fp math_mode(fast)\n// half\nkernel void f(device T* p [[texture(0)]]) { simd_sum(\"fma\"); }",
		map[string]bool{"kernel": true, "device": true, "simd_sum": true, "half": true, "fma": true})
	want := []string{"#pragma METAL fp math_mode", "[[texture]]", "device", "kernel", "simd_sum"}
	if g := slices.Sorted(maps.Keys(got)); !slices.Equal(g, want) {
		t.Errorf("got %q, want %q", g, want)
	}
}

// spaces compiles a shader with device and constant as address spaces, in the
// C++ that Metal's oldest supported language has.
func (c *clang) spaces(file string) []string {
	return []string{"-x", "c++", "-std=c++14", "-DMSL_ADDRESS_SPACES", "-Wall", "-Wextra", "-Werror",
		"-Wno-unknown-attributes", "-Wno-unknown-pragmas", "-Wno-unused-command-line-argument", "-I", "msl", "-I", shaders, file}
}

func TestAddressSpaces(t *testing.T) {
	c := needClang(t)
	for _, f := range shaderFiles {
		c.mustCheck(t, c.spaces(filepath.Join(shaders, f))...)
	}
	// Rules that the compiler must hold for the check to mean anything.
	for name, body := range map[string]string{
		"device as thread":      "inline void f(device float* p) { float* q = p; q[0] = 1.0f; }",
		"device as constant":    "inline void f(device float* p) { constant float* q = p; float v = q[0]; (void)v; }",
		"write to constant":     "inline void f(constant float* p) { p[0] = 1.0f; }",
		"threadgroup as device": "inline void f(threadgroup float* p) { device float* q = p; q[0] = 1.0f; }",
		"threadgroup as thread": "inline void f(threadgroup float* p) { thread float* q = p; q[0] = 1.0f; }",
		"a name it has not":     "inline float f(float x) { return metal::fast::exp(x); }",
	} {
		file := filepath.Join(t.TempDir(), "bad.metal")
		if err := os.WriteFile(file, []byte("#include <metal_stdlib>\n"+body+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		if out, err := c.check(t, c.spaces(file)...); err == nil {
			t.Errorf("%s: compiles, expected an error\n%s", name, out)
		}
	}
}

// host compiles Objective-C++ against the declarations in host and hosttorch.
// The stand-in of xcrun compiles it against torch's own header instead.
func host(arc string, file string) []string {
	return []string{"-x", "objective-c++", "-fblocks", "-fobjc-runtime=macosx-26.0", arc, "-std=c++17",
		"-Wall", "-Wextra", "-Werror", "-Wno-unused-command-line-argument", "-DMETAL_KERNEL", `-DEMBEDDED_METALLIB_HEADER="test_metallib.h"`,
		"-DEMBEDDED_METALLIB_NAMESPACE=test_metal", "-I", "host", "-I", "hosttorch", "-I", shaders, file}
}

// TestHost compiles the host code, with and without automatic reference
// counting, and shows that a misspelt selector or torch call would not pass.
func TestHost(t *testing.T) {
	c := needClang(t)
	source := filepath.Join(shaders, "edge_ops_metal.mm")
	for _, arc := range []string{"-fobjc-arc", "-fno-objc-arc"} {
		c.mustCheck(t, host(arc, source)...)
	}
	b, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{
		"setBytes:launch.params length:": "setBytes:launch.params size:",
		"stream->commandEncoder()":       "stream->encoder()",
		"threadExecutionWidth":           "threadWidth",
		"dispatch_sync(":                 "dispatch_synch(",
	} {
		bad := filepath.Join(t.TempDir(), "bad.mm")
		if !strings.Contains(string(b), from) {
			t.Errorf("%s does not use %q any more", source, from)
		}
		if err := os.WriteFile(bad, []byte(strings.ReplaceAll(string(b), from, to)), 0o666); err != nil {
			t.Fatal(err)
		}
		if out, err := c.check(t, host("-fno-objc-arc", bad)...); err == nil {
			t.Errorf("%q for %q compiles, expected an error\n%s", to, from, out)
		}
	}
}

// TestEveryKernelIsPlanned compares the shaders' names with those that the host
// code asks the library for.
func TestEveryKernelIsPlanned(t *testing.T) {
	plan, err := os.ReadFile(filepath.Join(shaders, "plan.h"))
	if err != nil {
		t.Fatal(err)
	}
	planned := map[string]bool{}
	for _, m := range regexp.MustCompile(`"(\w+_(?:float32|float16|bfloat16))"`).FindAllStringSubmatch(string(plan), -1) {
		planned[m[1]] = true
	}
	if len(planned) != 6*3 {
		t.Errorf("%d shaders planned, expected six for each of three dtypes", len(planned))
	}
	defined := map[string]bool{}
	macro := regexp.MustCompile(`kernel void (\w+?)(##NAME)?\(`)
	for _, f := range shaderFiles {
		b, err := os.ReadFile(filepath.Join(shaders, f))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range macro.FindAllStringSubmatch(string(b), -1) {
			if m[2] != "" {
				for _, dtype := range []string{"float32", "float16", "bfloat16"} {
					defined[m[1]+dtype] = true
				}
			}
		}
		for _, m := range regexp.MustCompile(`(?m)^GATE_KERNEL\((\w+),`).FindAllStringSubmatch(string(b), -1) {
			defined[m[1]] = true
		}
	}
	if !maps.Equal(planned, defined) {
		t.Errorf("planned %q, defined %q", slices.Sorted(maps.Keys(planned)), slices.Sorted(maps.Keys(defined)))
	}
}
