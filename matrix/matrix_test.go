package matrix

import (
	"bytes"
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

func TestRequiredNames(t *testing.T) {
	var want []string
	for _, torch := range []string{"torch212", "torch213"} {
		for _, p := range []string{"cxx11-cpu-x86_64-linux", "cxx11-cu126-x86_64-linux", "cxx11-cu130-x86_64-linux", "cxx11-cu132-x86_64-linux",
			"cxx11-rocm71-x86_64-linux", "cxx11-rocm72-x86_64-linux",
			"cxx11-cpu-aarch64-linux", "cxx11-cu126-aarch64-linux", "cxx11-cu130-aarch64-linux", "cxx11-cu132-aarch64-linux",
			"cpu-aarch64-darwin", "metal-aarch64-darwin"} {
			want = append(want, torch+"-"+p)
		}
	}
	want = append(want, "torch212-cxx11-xpu20253-x86_64-linux", "torch213-cxx11-xpu20260-x86_64-linux")
	slices.Sort(want)
	if len(want) != 26 {
		t.Fatal("the test is wrong")
	}
	if diff := cmp.Diff(want, Default().RequiredNames()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCatalogueRowsNameTheirSource(t *testing.T) {
	for _, r := range Default().Rows {
		if r.Source.What == "" || len(r.Source.Date) != len("2026-08-20") {
			t.Errorf("%s: source %+v", r.Name(), r.Source)
		}
	}
	want := []manifests.Version{{Major: 2, Minor: 11}, {Major: 2, Minor: 12}, {Major: 2, Minor: 13}, {Major: 2, Minor: 14}, {Major: 2, Minor: 15}}
	if diff := cmp.Diff(want, Default().Torches()); diff != "" {
		t.Error(diff)
	}
}

func TestBadCatalogues(t *testing.T) {
	row := "[source.a]\nwhat = \"x\"\ndate = 2026-01-01\n[[row]]\ntorch = \"2.13\"\nbackend = \"cpu\"\nplatforms = [\"x86_64-linux\"]\nstatus = \"extra\"\nsource = \"a\"\n"
	if _, err := parseCatalogue(row); err != nil {
		t.Fatal(err)
	}
	for edit, want := range map[string]string{
		`source = "a" -> source = "b"`:                     `unknown source "b"`,
		`"extra" -> "maybe"`:                               `unknown status "maybe"`,
		`x86_64-linux -> x86_64`:                           "linux, darwin or windows",
		`"2.13" -> "2.13.1"`:                               "two components",
		`status -> color = 1` + "\nstatus":                 "unknown key",
		`"x86_64-linux" -> "x86_64-linux", "x86_64-linux"`: "two rows are named",
	} {
		old, replacement, _ := strings.Cut(edit, " -> ")
		if _, err := parseCatalogue(strings.Replace(row, old, replacement, 1)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", edit, err, want)
		}
	}
}

// The vectors come from running the upstream function; "" is an empty result.
func TestLooseIntersection(t *testing.T) {
	toolkits := []manifests.Version{{Major: 12, Minor: 6}, {Major: 12, Minor: 8}, {Major: 13, Minor: 0}}
	for asked, want := range map[string][3]string{
		"8.0 9.0a":         {"8.0 9.0a", "8.0 9.0a", "8.0 9.0a"},
		"8.0 8.6 9.0 9.0a": {"8.0 8.6 9.0a", "8.0 8.6 9.0a", "8.0 8.6 9.0a"},
		"7.5 8.0+PTX":      {"7.5 8.0+PTX", "7.5 8.0+PTX", "7.5 8.0+PTX"},
		"10.0":             {"", "10.0", "10.0"},
		"9.0 10.0 12.0":    {"9.0", "9.0 10.0 12.0", "9.0 10.0 12.0"},
		"10.0f 12.0f":      {"", "10.0f 12.0f", "10.0f 12.0f"},
		"12.0a":            {"", "12.0a", "12.0a"},
		"10.3a":            {"", "", ""},
		"9.0 12.1a":        {"9.0", "9.0", "9.0 12.1a"},
		"7.0 7.5 8.0 8.9":  {"7.0 7.5 8.0 8.9", "7.0 7.5 8.0 8.9", "7.5 8.0 8.9"},
		"9.0a+PTX":         {"9.0a+PTX", "9.0a+PTX", "9.0a+PTX"},
		"6.0":              {"", "", ""},
		// Not upstream's: order and numbers.
		"10.0 9.0":     {"9.0", "9.0 10.0", "9.0 10.0"},
		"99999.0":      {"", "", ""},
		"9.0 9.0+PTX":  {"9.0+PTX", "9.0+PTX", "9.0+PTX"},
		"12.1":         {"", "", "12.1"},
		"10.0a 10.0f":  {"", "10.0a 10.0f", "10.0a 10.0f"},
		"8.0 8.0 8.0a": {"8.0 8.0a", "8.0 8.0a", "8.0 8.0a"},
	} {
		for i, cuda := range toolkits {
			list := strings.Fields(asked)
			got, dropped, err := LooseIntersection(list, Default().Capabilities(cuda))
			if err != nil || strings.Join(got, " ") != want[i] {
				t.Errorf("%s for CUDA %v: %v, %v, want %s", asked, cuda, got, err, want[i])
			}
			// What is asked for is either compiled or reported.
			for _, a := range list {
				used := slices.ContainsFunc(got, func(g string) bool { return strings.TrimSuffix(g, "+PTX") == strings.TrimSuffix(a, "+PTX") })
				if used == slices.Contains(dropped, a) {
					t.Errorf("%s for CUDA %v: %s is used %v, dropped %v", asked, cuda, a, got, dropped)
				}
			}
		}
	}
	for _, bad := range []string{"9", "9.0b", "a.0", "9.0+ptx", "09.0", "+PTX", "", "9.0 ", "-1.0"} {
		if got, _, err := LooseIntersection([]string{bad}, []string{"9.0"}); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
}

func FuzzLooseIntersection(f *testing.F) {
	f.Add("8.0 9.0a 12.0+PTX")
	f.Add("7.5 8.0+PTX 10.0f")
	f.Fuzz(func(t *testing.T, asked string) {
		list := strings.Fields(asked)
		for _, cuda := range []manifests.Version{{Major: 12, Minor: 6}, {Major: 13, Minor: 2}} {
			got, _, err := LooseIntersection(list, Default().Capabilities(cuda))
			if err != nil {
				return
			}
			// Nothing is compiled that was not asked for, nothing twice, and
			// asking for the result gives the result.
			seen := map[string]bool{}
			for _, g := range got {
				base := strings.TrimSuffix(g, "+PTX")
				if !slices.Contains(list, base) && !slices.Contains(list, base+"+PTX") || seen[base] {
					t.Fatalf("%q gives %v", list, got)
				}
				seen[base] = true
			}
			again, dropped, err := LooseIntersection(got, Default().Capabilities(cuda))
			if err != nil || !slices.Equal(again, got) || len(dropped) > 0 {
				t.Fatalf("%v, asked for again, gives %v and drops %v (%v)", got, again, dropped, err)
			}
		}
	})
}

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

func TestDecide(t *testing.T) {
	vs := expand(t, kernel(t, "[kernel.x]\nbackend = \"xpu\"", "[kernel.x]\nbackend = \"cpu\""), nil)
	asked := map[Need]int{}
	Decide(vs, func(n Need) error {
		asked[n]++
		switch n.Tool {
		case ZigCXX, NVCC:
			return nil
		}
		return errors.New("not found")
	})
	for n, times := range asked {
		if times != 1 {
			t.Errorf("%v was asked for %d times", n, times)
		}
	}
	want := map[string]string{
		"cpu": "", "cu130": "", "cu132": "",
		"cu126":    "needs clang with the files of CUDA 12.6 for %s: not found",
		"rocm71":   "needs hipcc of ROCm 7.1: not found",
		"rocm72":   "needs hipcc of ROCm 7.2: not found",
		"metal":    "needs clang++ and metal of Xcode: not found",
		"darwin":   "needs clang++ of Xcode: not found",
		"xpu20253": `kernel "a-b" has no section with backend = "xpu"`,
		"xpu20260": `kernel "a-b" has no section with backend = "xpu"`,
	}
	for _, v := range vs {
		reason := strings.Replace(want[v.Compute.String()], "%s", v.Platform.String(), 1)
		if v.Platform.OS == manifests.Darwin && v.Compute.Backend == manifests.CPU {
			reason = want["darwin"]
		}
		if v.Reason != reason || v.Buildable != (reason == "") {
			t.Errorf("%s: buildable %v, %q, want %q", v.Name, v.Buildable, v.Reason, reason)
		}
	}
}

func TestMissingRequired(t *testing.T) {
	k := kernel(t, "maxver = \"13.9\"", "maxver = \"13.0\"", `["cpu", "cuda", "metal", "rocm", "xpu"]`, `["cpu", "cuda"]`)
	w := &manifests.Workspace{Matrix: manifests.MatrixOverrides{Torch: []manifests.Version{{Major: 2, Minor: 13}}, Exclude: []string{"*-cu126-aarch64-*"}}}
	vs := expand(t, k, w)
	Decide(vs, func(n Need) error {
		if n.Tool == XCRun {
			return errors.New("not found")
		}
		return nil
	})
	var got []string
	for _, m := range MissingRequired(k, w, vs) {
		got = append(got, m.Name+": "+m.Reason)
	}
	const torch = "the workspace's matrix.torch does not list 2.12"
	const maxver = "CUDA 13.2 is above general.cuda.maxver 13.0"
	if diff := cmp.Diff([]string{
		"torch212-cpu-aarch64-darwin: " + torch,
		"torch212-cxx11-cpu-aarch64-linux: " + torch,
		"torch212-cxx11-cpu-x86_64-linux: " + torch,
		"torch212-cxx11-cu126-aarch64-linux: " + torch,
		"torch212-cxx11-cu126-x86_64-linux: " + torch,
		"torch212-cxx11-cu130-aarch64-linux: " + torch,
		"torch212-cxx11-cu130-x86_64-linux: " + torch,
		"torch212-cxx11-cu132-aarch64-linux: " + maxver,
		"torch212-cxx11-cu132-x86_64-linux: " + maxver,
		"torch213-cpu-aarch64-darwin: needs clang++ of Xcode: not found",
		`torch213-cxx11-cu126-aarch64-linux: the workspace's matrix.exclude has "*-cu126-aarch64-*"`,
		"torch213-cxx11-cu132-aarch64-linux: " + maxver,
		"torch213-cxx11-cu132-x86_64-linux: " + maxver,
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	full := kernel(t)
	all := expand(t, full, nil)
	Decide(all, everything)
	if m := MissingRequired(full, nil, all); m != nil {
		t.Errorf("with every tool: %v", m)
	}
	Decide(all, func(Need) error { return errors.New("no") })
	if m := MissingRequired(full, nil, all); len(m) != 26 {
		t.Errorf("with no tool: %d are missing, want 26", len(m))
	}
}

func TestRenderings(t *testing.T) {
	k := kernel(t, "src = [\"d.cu\"]\n\n[kernel.m]", "src = [\"d.cu\"]\ncuda-capabilities = [\"8.0\", \"9.0\", \"9.0a\"]\n\n[kernel.m]")
	w := &manifests.Workspace{Matrix: manifests.MatrixOverrides{Torch: []manifests.Version{{Major: 2, Minor: 13}}}}
	vs := expand(t, k, w)
	Decide(vs, func(n Need) error {
		if n.Tool == XCRun || n.Tool == XCMetal || n.Tool == HIPCC || n.Tool == ICPX {
			return errors.New("not on PATH")
		}
		return nil
	})
	missing := MissingRequired(k, w, vs)
	for file, render := range map[string]func(*bytes.Buffer) error{
		"testdata/table.txt":   func(b *bytes.Buffer) error { return Table(b, vs, missing) },
		"testdata/matrix.json": func(b *bytes.Buffer) error { return JSON(b, vs, missing) },
		"testdata/github.json": func(b *bytes.Buffer) error { return GitHub(b, vs) },
		"testdata/empty.json":  func(b *bytes.Buffer) error { return JSON(b, nil, nil) },
		"testdata/noarch.txt": func(b *bytes.Buffer) error {
			vs := expand(t, noarchKernel(t), nil)
			Decide(vs, everything)
			return Table(b, vs, nil)
		},
	} {
		var b bytes.Buffer
		if err := render(&b); err != nil {
			t.Error(err)
		}
		golden(t, file, b.Bytes())
	}
	many := slices.Repeat(vs, 20)
	if err := GitHub(&bytes.Buffer{}, many); err == nil || !strings.Contains(err.Error(), "at most 256 jobs") {
		t.Errorf("%d jobs: %v", len(many), err)
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

func TestDeal(t *testing.T) {
	vs := expand(t, kernel(t), nil)
	whole := func(v Variant) []Part {
		return []Part{{v.Name.String(), float64(len(v.Compute.String())*v.Torch.Minor%7) + 0.5}}
	}
	for _, parts := range []func(Variant) []Part{nil, whole} {
		for _, n := range []int{1, 3, 7, len(vs) + 5} {
			shards, seconds := Deal(vs, n, parts)
			mirrored := slices.Clone(vs)
			slices.Reverse(mirrored)
			back, _ := Deal(mirrored, n, parts) // the order in which variants come must not matter
			seen := map[string]int{}
			for i, shard := range shards {
				slices.Reverse(back[i])
				if !slices.Equal(names(shard), names(back[i])) {
					t.Errorf("shard %d of %d depends on the order", i, n)
				}
				for _, v := range shard {
					seen[v.Name.String()]++
				}
				if !slices.Equal(IDs(shard), IDs(VariantsOf(vs, IDs(shard)))) {
					t.Errorf("shard %d of %d is not found again by its names", i, n)
				}
			}
			if len(shards) != n || len(seen) != len(vs) {
				t.Errorf("%d shards hold %d of %d variants", len(shards), len(seen), len(vs))
			}
			for name, times := range seen {
				if times != 1 {
					t.Errorf("%s is in %d of %d shards", name, times, n)
				}
			}
			if parts == nil {
				continue
			}
			dearest := 0.0
			for _, v := range vs {
				dearest = max(dearest, parts(v)[0].Seconds)
			}
			if d := slices.Max(seconds) - slices.Min(seconds); d > dearest {
				t.Errorf("%d shards cost from %v to %v, and the dearest variant only %v", n, slices.Min(seconds), slices.Max(seconds), dearest)
			}
		}
	}
}

// Variants that share dear device code go to one shard; what each takes alone
// is spread.
func TestDealShares(t *testing.T) {
	vs, err := Select(expand(t, kernel(t), nil), []string{"torch21*-cxx11-cu1*-x86_64-linux"})
	if err != nil {
		t.Fatal(err)
	}
	parts := func(v Variant) []Part {
		return []Part{{"device " + v.Compute.String(), 300}, {v.Name.String(), 10}}
	}
	shards, seconds := Deal(vs, 3, parts)
	for i, shard := range shards {
		computes := map[string]bool{}
		for _, v := range shard {
			computes[v.Compute.String()] = true
		}
		if want := 300 + 10*float64(len(shard)); len(computes) != 1 || seconds[i] != want {
			t.Errorf("shard %d compiles device code for %v in %v s: %v", i+1, computes, seconds[i], names(shard))
		}
	}
	// With more shards than device code, the work is split all the same.
	if _, seconds := Deal(vs, 6, parts); slices.Max(seconds) > 340 {
		t.Errorf("%v", seconds)
	}
}

func TestParseShard(t *testing.T) {
	if s, err := ParseShard("2/4"); err != nil || s != (Shard{2, 4}) || s.String() != "2/4" {
		t.Error(s, err)
	}
	for _, bad := range []string{"", "2", "0/4", "5/4", "1/0", "-1/4", "a/b", "1/4/2", "1/ 4"} {
		if s, err := ParseShard(bad); err == nil {
			t.Errorf("%q was read as %v", bad, s)
		}
	}
}
