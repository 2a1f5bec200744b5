package compile

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/thox-ai/thoxbuild/compile/action"
	"github.com/thox-ai/thoxbuild/manifests"
)

var update = flag.Bool("update", false, "write the golden files")

const (
	cpu213  = "torch213-cxx11-cpu-x86_64-linux"
	cpu212  = "torch212-cxx11-cpu-x86_64-linux"
	cpu211  = "torch211-cxx11-cpu-x86_64-linux"
	arm213  = "torch213-cxx11-cpu-aarch64-linux"
	cu130   = "torch213-cxx11-cu130-x86_64-linux"
	cu126   = "torch213-cxx11-cu126-x86_64-linux"
	stable  = "torch-stable-abi211-cpu-x86_64-linux"
	metal13 = "torch213-metal-aarch64-darwin"
)

// describe prints a plan: what is run, on what, for whom.
func describe(p *Plan) string {
	var b strings.Builder
	for _, a := range p.Actions() {
		fmt.Fprintf(&b, "## %s\n", a.Label)
		fmt.Fprintf(&b, "for %s\n", strings.Join(a.Variants, " "))
		spec, err := a.spec(func(in input) (action.Digest, error) { return in.from.id, nil })
		if err != nil {
			return err.Error()
		}
		for _, l := range spec.Explain() {
			if strings.HasPrefix(l.Label, "input ") {
				l.Value = "..."
			}
			fmt.Fprintln(&b, l)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestPlanGolden(t *testing.T) {
	b := newBench(t, t.TempDir())
	for name, variants := range map[string][]string{
		"cpu":   {cpu213, cpu211, arm213, stable},
		"cuda":  {cu130, cu126},
		"metal": {metal13},
	} {
		got := describe(b.plan(variants...))
		golden := filepath.Join("testdata", "plan_"+name+".golden")
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s: plan differs (-want +got); run with -update when it should:\n%s", name, diff)
		}
	}
}

// A unit without torch headers is one action for all torch versions, and one
// for each architecture; the binding is one for each torch.
func TestPlanShares(t *testing.T) {
	b := newBench(t, t.TempDir())
	p := b.plan(cpu213, cpu212, cpu211, arm213, stable, cu130, cu126)
	users := map[string][]string{}
	for _, a := range p.Actions() {
		users[a.Label] = append(users[a.Label], a.Variants...)
	}
	want := map[string]int{
		"compile cpu/base.cpp (base cpu x86_64)":                    4,
		"compile cpu/wide.cpp (wide cpu x86_64)":                    4,
		"compile cpu/base.cpp (base cpu aarch64)":                   1,
		"compile csrc/device.cu (device cu130 x86_64)":              1,
		"compile csrc/device.cu (device cu126 x86_64)":              1,
		"compile torch-ext/torch_binding.cpp (torch213 cpu x86_64)": 1,
		"compile torch-ext/torch_binding.cpp (torch212 cpu x86_64)": 1,
	}
	for label, n := range want {
		if len(users[label]) != n {
			t.Errorf("%s serves %q, want %d variants", label, users[label], n)
		}
	}
	if l, ok := users["compile cpu/wide.cpp (wide cpu aarch64)"]; ok {
		t.Errorf("the AVX2 unit is compiled for %v", l)
	}
}

// The name of an extension follows from its content and from nothing else.
func TestUniqueName(t *testing.T) {
	b := newBench(t, t.TempDir())
	names := map[string]string{}
	for _, vp := range b.plan(cpu213, cpu212, cu130).variants {
		if other, dup := names[vp.ops]; dup {
			t.Errorf("%s and %s are both called %s", vp.name, other, vp.ops)
		}
		names[vp.ops] = vp.name
	}
	again := newBench(t, t.TempDir())
	first, second := b.plan(cpu213).variants[0].ops, again.plan(cpu213).variants[0].ops
	if first != second {
		t.Errorf("equal sources in two folders are called %s and %s", first, second)
	}
	for _, edit := range [][3]string{
		{"cpu/wide.cpp", "2 * x", "x * 2"},
		{"torch-ext/tiny_kernel/layers.py", "x = 1", "x = 2"},
		{"csrc/base_only.h", "once", "once\n"},
	} {
		again.edit(edit[0], edit[1], edit[2])
		next := again.plan(cpu213).variants[0].ops
		if next == second {
			t.Errorf("an edit of %s leaves the name %s", edit[0], next)
		}
		second = next
	}
}

func TestPlanErrors(t *testing.T) {
	for _, c := range []struct {
		name, file, old, new string
		variant              string
		want                 []string
	}{
		{"missing source", "build.toml", `"cpu/wide.cpp"`, `"cpu/gone.cpp"`, cpu213, []string{"build.toml:", "cpu/gone.cpp"}},
		{"response file", "build.toml", `"-mfma"`, `"@flags"`, cpu213, []string{"@flags", "write the flags out"}},
		{"output flag", "build.toml", `"-mfma"`, `"-o"`, cpu213, []string{`"-o"`, "thoxbuild chooses"}},
		{"native", "build.toml", `"-mfma"`, `"-march=native"`, cpu213, []string{"name the architecture"}},
		{"dependency", "build.toml", "depends = []", `depends = ["cutlass_3_9"]`, cpu213, []string{"cutlass_3_9", "wide"}},
		{"capability", "build.toml", `"9.0a"`, `"99999.0"`, cu130, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, t.TempDir())
			b.edit(c.file, c.old, c.new)
			prj, err := manifests.Load(b.kernel.Dir)
			if err == nil {
				b.kernel = prj.Kernels[0]
				_, err = b.tryPlan(c.variant)
			}
			if len(c.want) == 0 {
				return // refused by the matrix, or compiled as written
			}
			if err == nil {
				t.Fatal("planned")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v\nwant %q in it", err, w)
				}
			}
		})
	}
}

func TestNoPackage(t *testing.T) {
	b := newBench(t, t.TempDir())
	if err := os.Remove(filepath.Join(b.kernel.Dir, "torch-ext/tiny_kernel/__init__.py")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.tryPlan(cpu213); err == nil || !strings.Contains(err.Error(), "__init__.py is missing") {
		t.Errorf("%v", err)
	}
	os.RemoveAll(filepath.Join(b.kernel.Dir, "torch-ext/tiny_kernel"))
	if _, err := b.tryPlan(cpu213); err == nil || !strings.Contains(err.Error(), "expected torch-ext/tiny_kernel/__init__.py") {
		t.Errorf("%v", err)
	}
}

func TestGencode(t *testing.T) {
	got, err := gencode([]string{"8.0", "9.0a", "10.0f", "12.0+PTX"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"-gencode=arch=compute_80,code=sm_80",
		"-gencode=arch=compute_90a,code=sm_90a",
		"-gencode=arch=compute_100f,code=sm_100f",
		"-gencode=arch=compute_120,code=sm_120",
		"-gencode=arch=compute_120,code=compute_120",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, bad := range []string{"", "9", "9.", ".0", "9.0b", "9.0aa", "9.00", "-1.0", "9.0+ptx", "9.0 ", "x.0"} {
		if got, err := gencode([]string{bad}); err == nil {
			t.Errorf("capability %q gives %q", bad, got)
		}
	}
	clang, err := clangArchs([]string{"8.0", "9.0a+PTX"})
	if err != nil || !slices.Equal(clang, []string{"--no-cuda-include-ptx=all", "--cuda-gpu-arch=sm_80", "--cuda-gpu-arch=sm_90a", "--cuda-include-ptx=sm_90a"}) {
		t.Errorf("%q %v", clang, err)
	}
}
