package matrix

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/thox-ai/thoxbuild/manifests"
)

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
