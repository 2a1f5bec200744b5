package matrix

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/thox-ai/thoxbuild/manifests"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// kernel parses a build.toml; edits are pairs of old and new text.
func kernel(t *testing.T, edits ...string) *manifests.Kernel {
	t.Helper()
	text := strings.NewReplacer(edits...).Replace(baseKernel)
	b, err := manifests.ParseBuild("build.toml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return b.Kernel
}

const baseKernel = `[general]
name = "a-b"
version = 1
edition = 5
license = "mit"
backends = ["cpu", "cuda", "metal", "rocm", "xpu"]

[general.cuda]
maxver = "13.9"

[torch]
src = ["bind.cpp"]
maxver = "2.99"

[kernel.c]
backend = "cpu"
depends = []
src = ["c.cpp"]

[kernel.d]
backend = "cuda"
depends = []
src = ["d.cu"]

[kernel.m]
backend = "metal"
depends = []
src = ["m.metal"]

[kernel.r]
backend = "rocm"
depends = []
src = ["d.cu"]

[kernel.x]
backend = "xpu"
depends = []
src = ["x.cpp"]
`

func expand(t *testing.T, k *manifests.Kernel, w *manifests.Workspace) []Variant {
	t.Helper()
	vs, err := Expand(k, w)
	if err != nil {
		t.Fatal(err)
	}
	return vs
}

func names(vs []Variant) []string {
	out := []string{}
	for _, v := range vs {
		out = append(out, v.Name.String())
	}
	return out
}

// everything is a probe of a host that has every tool.
func everything(Need) error { return nil }

func TestExpandFilters(t *testing.T) {
	rows := len(Default().Rows)
	for _, c := range []struct {
		what  string
		edits []string
		w     *manifests.Workspace
		want  func(name string) bool
	}{
		{"no filter", nil, nil, func(string) bool { return true }},
		{"torch bounds are numbers and inclusive", []string{"maxver = \"2.99\"", "minver = \"2.9\"\nmaxver = \"2.11\""}, nil,
			func(n string) bool { return strings.HasPrefix(n, "torch211-") }},
		{"2.9 is below 2.10", []string{"maxver = \"2.99\"", "maxver = \"2.9\""}, nil, func(string) bool { return false }},
		{"CUDA bounds", []string{"maxver = \"13.9\"", "minver = \"12.9\"\nmaxver = \"13.0\""}, nil,
			func(n string) bool { return !strings.Contains(n, "cu126") && !strings.Contains(n, "cu132") }},
		{"backends", []string{`["cpu", "cuda", "metal", "rocm", "xpu"]`, `["metal"]`}, nil, func(n string) bool { return strings.Contains(n, "-metal-") }},
		{"override torch", nil, &manifests.Workspace{Matrix: manifests.MatrixOverrides{Torch: []manifests.Version{{Major: 2, Minor: 13}}}},
			func(n string) bool { return strings.HasPrefix(n, "torch213-") }},
		{"exclude wins over include", nil, &manifests.Workspace{Matrix: manifests.MatrixOverrides{Include: []string{"*-linux"}, Exclude: []string{"*-aarch64-*", "*rocm7?*"}}},
			func(n string) bool { return strings.HasSuffix(n, "x86_64-linux") && !strings.Contains(n, "rocm") }},
	} {
		want := []string{}
		for _, r := range Default().Rows {
			if n := r.Name().String(); c.want(n) {
				want = append(want, n)
			}
		}
		if c.edits == nil && c.w == nil && len(want) != rows {
			t.Fatal("the test is wrong")
		}
		if diff := cmp.Diff(want, names(expand(t, kernel(t, c.edits...), c.w))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
	}
	_, err := Expand(kernel(t), &manifests.Workspace{File: "w.toml", Matrix: manifests.MatrixOverrides{Torch: []manifests.Version{{Major: 2, Minor: 1}}}})
	if err == nil || !strings.Contains(err.Error(), "torch 2.1 is not in the catalogue; expected 2.11, 2.12, 2.13, 2.14, 2.15") {
		t.Errorf("unknown torch: %v", err)
	}
}

func TestStableABIVariants(t *testing.T) {
	vs := expand(t, kernel(t, "maxver = \"2.99\"", "stable-abi = \"2.11\""), nil)
	want := []string{}
	for _, c := range []string{"cpu", "cu126", "cu130", "cu132", "rocm71", "rocm72", "xpu20253", "xpu20260", "metal"} {
		for _, p := range []string{"x86_64-linux", "aarch64-linux", "aarch64-darwin"} {
			gpuOnly := strings.HasPrefix(c, "rocm") || strings.HasPrefix(c, "xpu")
			if c == "metal" != (p == "aarch64-darwin") && c != "cpu" || gpuOnly && p != "x86_64-linux" {
				continue
			}
			want = append(want, "torch-stable-abi211-"+c+"-"+p)
		}
	}
	got := names(vs)
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	newest := map[string]string{"cu126": "2.15", "rocm71": "2.13", "rocm72": "2.15", "xpu20253": "2.12", "xpu20260": "2.15", "cpu": "2.15"}
	for _, v := range vs {
		if want := newest[v.Compute.String()]; want != "" && v.Torch.String() != want {
			t.Errorf("%s is compiled against torch %v, want %s", v.Name, v.Torch, want)
		}
		if v.Status == Required {
			t.Errorf("%s: no list requires it", v.Name)
		}
	}
	// One backend can use it while the others don't, and the floor bounds the rows.
	vs = expand(t, kernel(t, "maxver = \"2.99\"", "maxver = \"2.12\"\nstable-abi = { cpu = \"2.12\" }", `["cpu", "cuda", "metal", "rocm", "xpu"]`, `["cpu", "metal"]`), nil)
	got = names(vs)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"torch-stable-abi212-cpu-aarch64-darwin", "torch-stable-abi212-cpu-aarch64-linux", "torch-stable-abi212-cpu-x86_64-linux",
		"torch211-metal-aarch64-darwin", "torch212-metal-aarch64-darwin"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A workspace's floors add variants and take none away.
func TestWorkspaceStableABI(t *testing.T) {
	k := kernel(t, "maxver = \"2.99\"", "", `["cpu", "cuda", "metal", "rocm", "xpu"]`, `["cpu", "metal"]`)
	own := expand(t, k, nil)
	w := &manifests.Workspace{StableABI: map[string]manifests.StableABI{k.General.Name: {
		ByBackend: map[manifests.Backend]manifests.Version{manifests.CPU: {Major: 2, Minor: 12}, manifests.CUDA: {Major: 2, Minor: 12}}}}}
	both := expand(t, k, w)
	var added []string
	for _, v := range both {
		if slices.Contains(names(own), v.Name.String()) {
			continue
		}
		added = append(added, v.Name.String())
		if v.Status != Extra || v.Torch.String() != "2.15" || v.Kernel != k {
			t.Errorf("%s: status %s, torch %v; want extra, compiled against the newest torch", v.Name, v.Status, v.Torch)
		}
	}
	want := []string{"torch-stable-abi212-cpu-x86_64-linux", "torch-stable-abi212-cpu-aarch64-linux", "torch-stable-abi212-cpu-aarch64-darwin"}
	if diff := cmp.Diff(want, added); diff != "" || len(both) != len(own)+len(want) {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if k.Torch.StableABI.All != (manifests.Version{}) {
		t.Error("the kernel was changed")
	}
	if a, b := MissingRequired(k, nil, own), MissingRequired(k, w, both); !slices.Equal(a, b) {
		t.Errorf("required: %v without, %v with the floors", a, b)
	}
	w.Matrix.Exclude = []string{"torch-stable-abi*-darwin"}
	if got := names(expand(t, k, w)); slices.Contains(got, want[2]) || !slices.Contains(got, want[0]) {
		t.Errorf("with an exclude: %v", got)
	}
}

func TestTVMFFIVariants(t *testing.T) {
	got := names(expand(t, kernel(t, "[torch]", "[tvm-ffi]", "maxver = \"2.99\"\n", ""), nil))
	slices.Sort(got)
	want := []string{"tvm-ffi01-cpu-aarch64-darwin", "tvm-ffi01-cpu-aarch64-linux", "tvm-ffi01-cpu-x86_64-linux",
		"tvm-ffi01-cu126-aarch64-linux", "tvm-ffi01-cu126-x86_64-linux", "tvm-ffi01-cu130-aarch64-linux", "tvm-ffi01-cu130-x86_64-linux",
		"tvm-ffi01-cu132-aarch64-linux", "tvm-ffi01-cu132-x86_64-linux", "tvm-ffi01-xpu20253-x86_64-linux"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func noarchKernel(t *testing.T) *manifests.Kernel {
	b, err := manifests.ParseBuild("build.toml", []byte("[general]\nname = \"py\"\nversion = 1\nedition = 5\nlicense = \"mit\"\nbackends = [\"cuda\", \"cpu\", \"cann\", \"tpu\"]\n[torch-noarch]\n"))
	if err != nil {
		t.Fatal(err)
	}
	return b.Kernel
}

func TestNoarchVariants(t *testing.T) {
	k := noarchKernel(t)
	vs := expand(t, k, nil)
	if diff := cmp.Diff([]string{"torch-npu", "torch-cpu", "torch-cuda", "torch-tpu"}, names(vs)); diff != "" {
		t.Error(diff)
	}
	if m := MissingRequired(k, nil, vs); len(m) != 1 || m[0].Name != "torch-*" {
		t.Errorf("before Decide: %v", m)
	}
	Decide(vs, func(n Need) error { return fmt.Errorf("no tool should be asked for: %v", n) })
	if m := MissingRequired(k, nil, vs); m != nil {
		t.Errorf("after Decide: %v", m)
	}
}

func TestEmptyCapabilityIntersection(t *testing.T) {
	k := kernel(t, "src = [\"d.cu\"]\n\n[kernel.m]", "src = [\"d.cu\"]\ncuda-capabilities = [\"12.1\"]\n\n[kernel.m]",
		"backend = \"rocm\"", "backend = \"rocm\"\nrocm-archs = [\"gfx1250\"]")
	_, err := Expand(k, nil)
	var ps manifests.Problems
	if !errors.As(err, &ps) {
		t.Fatal(err)
	}
	want := `build.toml:24:21: kernel "a-b", section "d": CUDA 12.6 can compile none of the requested capabilities 12.1; it supports 7.0, 7.2, 7.5, 8.0, 8.6, 8.7, 8.9, 9.0+PTX (add a capability that it supports, set cuda-minver in [kernel.d], or exclude *-cu126-* in the workspace's [matrix])
build.toml:33:14: kernel "a-b", section "r": ROCm builds support none of the requested architectures gfx1250; they support gfx906, gfx908, gfx90a, gfx942, gfx950, gfx1030, gfx1100, gfx1101, gfx1200, gfx1201 (add one of them, or take "rocm" out of general.backends)`
	if diff := cmp.Diff(want, ps.Error()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The hint works.
	w := &manifests.Workspace{Matrix: manifests.MatrixOverrides{Exclude: []string{"*-cu126-*", "*-rocm*"}}}
	for _, v := range expand(t, k, w) {
		if v.Compute.Backend == manifests.CUDA && !slices.Equal(v.Components[0].Archs, []string{"12.1"}) {
			t.Errorf("%s: %v", v.Name, v.Components)
		}
	}
}

func TestComponents(t *testing.T) {
	k := kernel(t, "src = [\"d.cu\"]\n\n[kernel.m]", `src = ["d.cu"]
cuda-capabilities = ["9.0", "8.0", "9.0a", "12.1a"]

[kernel.new]
backend = "cuda"
depends = []
src = ["n.cu"]
cuda-minver = "13.2"

[kernel.m]`, "backend = \"rocm\"", "backend = \"rocm\"\nrocm-archs = [\"gfx942\", \"gfx1250\", \"gfx1100\"]")
	for _, v := range expand(t, k, nil) {
		var got []string
		for _, c := range v.Components {
			got = append(got, fmt.Sprintf("%s %v -%v", c.Section.Name, c.Archs, c.Dropped))
		}
		want := map[string][]string{
			"cpu": {"c [] -[]"}, "metal": {"m [] -[]"}, "xpu20253": {"x [] -[]"}, "xpu20260": {"x [] -[]"},
			"rocm71": {"r [gfx1100 gfx942] -[gfx1250]"}, "rocm72": {"r [gfx1100 gfx942] -[gfx1250]"},
			"cu126": {"d [8.0 9.0a] -[9.0 12.1a]"},
			"cu130": {"d [8.0 9.0a 12.1a] -[9.0]"},
			"cu132": {"d [8.0 9.0a 12.1a] -[9.0]", "new [7.5 8.0 8.6 8.7 8.9 9.0 10.0 11.0 12.0 12.1+PTX] -[]"},
		}[v.Compute.String()]
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", v.Name, diff)
		}
		if v.Compute.String() == "cu126" {
			if diff := cmp.Diff([]string{`section "d" drops 9.0, 12.1a for CUDA 12.6`, `section "new" needs CUDA 13.2`}, v.Notes); diff != "" {
				t.Error(diff)
			}
		}
	}
}

func TestSelect(t *testing.T) {
	vs := expand(t, kernel(t), nil)
	got, err := Select(vs, []string{"torch213-*-cpu-x86_64-linux", "torch213-metal-*", "torch213-*-cpu-x86_64-*"})
	if diff := cmp.Diff([]string{"torch213-cxx11-cpu-x86_64-linux", "torch213-metal-aarch64-darwin"}, names(got)); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if all, err := Select(vs, nil); err != nil || len(all) != len(vs) {
		t.Error(err, len(all))
	}
	_, err = Select(vs, []string{"torch213-*", "torch213-cxx11-cu131-x86_64-linux"})
	if err == nil || !strings.Contains(err.Error(), `no variant matches "torch213-cxx11-cu131-x86_64-linux"; the nearest is "torch213-cxx11-cu13`) {
		t.Error(err)
	}
	if _, err = Select(vs, []string{"torch[213"}); err == nil || !strings.Contains(err.Error(), "syntax error in pattern") {
		t.Error(err)
	}
}
