package isa

import (
	"slices"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

const (
	lse     = "-march=armv8.1-a "
	visible = ", W ISA-ENTRY-VIS"
)

// armObjects are single objects: the unit of the entry row_hi, or baseline
// code. levels and only narrow what a verdict holds for.
var armObjects = []struct {
	src, flags   string
	unit         bool
	want         string
	levels, only string
}{
	{src: "unit.c", flags: "-march=armv8.2-a+dotprod", unit: true},
	{src: "fp16.c", flags: "-march=armv8.2-a+fp16", unit: true},
	{src: "bf16.c", flags: "-march=armv8.2-a+bf16", unit: true},
	{src: "i8mm.c", flags: "-march=armv8.2-a+i8mm", unit: true},
	{src: "sve.c", flags: "-march=armv8.2-a+sve", unit: true, levels: "-O3"},
	{src: "hi_bump.cpp", flags: lse, unit: true, want: "E ISA-COMDAT"},
	{src: "hi_bump.cpp", unit: true},
	{src: "hi_scale.cpp", flags: "-march=armv8.2-a+sve", unit: true, want: "E ISA-COMDAT", levels: "-O3"},
	{src: "hi_half.cpp", flags: "-march=armv8.2-a+fp16", unit: true, want: "E ISA-COMDAT"},
	{src: "hi_virtual.cpp", flags: lse, unit: true, want: "E ISA-COMDAT"},
	{src: "hi_shared.cpp", flags: lse, unit: true, want: "E ISA-COMDAT", only: "gcc clang"}, // libc++ has it in its library
	{src: "hi_shared.cpp", flags: lse, unit: true, want: "E ISA-COMDAT", levels: "-O0", only: "zig"},
	{src: "hi_shared.cpp", flags: lse + "-fvisibility=hidden -fvisibility-inlines-hidden", unit: true, want: "E ISA-COMDAT", only: "gcc clang"},
	{src: "hi_init.cpp", flags: lse, unit: true, want: "E ISA-INIT", levels: "-O2 -O3"},
	{src: "hi_inlinevar.cpp", flags: lse + "-std=c++17", unit: true, want: "E ISA-COMDAT, E ISA-INIT", levels: "-O0"},
	{src: "hi_anon.cpp", flags: lse, unit: true},
	{src: "hi_public.c", flags: lse, unit: true, want: "E ISA-ENTRY" + visible},
	{src: "hi_weak.c", flags: lse, unit: true, want: "E ISA-COMDAT"},
	{src: "hi_resolver.c", flags: lse, unit: true, want: "E ISA-ENTRY, E ISA-IFUNC"},
	{src: "crc.c", flags: "-march=armv8-a+crc", unit: true},
	{src: "crc.c", flags: "-march=armv8-a+crc", want: "E ISA-BASE"},
	{src: "pauth.c", flags: "-march=armv8.3-a", want: "E ISA-BASE"},
	{src: "rcpc.cpp", flags: "-march=armv8.3-a", want: "E ISA-BASE"},
	{src: "sve.c", flags: "-march=armv8.2-a+sve", want: "E ISA-BASE", levels: "-O3"},
	{src: "base_bump.cpp", flags: lse, want: "W ISA-TARGET-INLINE"},
	{src: "base_shared.cpp", flags: lse, want: "E ISA-COMDAT-MIXED", levels: "-O0"},
	{src: "base_shared.cpp"},
	{src: "atomics.cpp"},
	{src: "atomics.cpp", flags: "-mno-outline-atomics"},
	{src: "atomics.cpp", flags: lse, want: "E ISA-BASE", levels: "-O2 -O3"},
	{src: "hints.c", flags: "-mbranch-protection=standard"},
	{src: "hints.c", flags: "-march=armv8.3-a -mbranch-protection=standard", want: "E ISA-BASE"}, // retaa
	{src: "target_attr.c", only: "gcc"},
	{src: "target_bad.c", only: "gcc", want: "E ISA-BASE"},
	{src: "hi_bump.cpp", flags: lse + "-flto", unit: true, want: "E ISA-LTO", only: "gcc"},
	{src: "literals.s"},
	{src: "direct.c"},
	{src: "resolver_bad.c"},
}

// TestArmObjects is TestObjects for AArch64.
func TestArmObjects(t *testing.T) {
	for _, c := range needCross(t) {
		for _, tt := range armObjects {
			if tt.only != "" && !strings.Contains(tt.only, c.name) {
				continue
			}
			levels := strings.Fields(tt.levels)
			if len(levels) == 0 {
				if levels = []string{"-O0", "-O2", "-O3"}; !full {
					levels = levels[1:2]
				}
			}
			for _, level := range levels {
				t.Run(strings.ReplaceAll(c.name+"/"+tt.src+" "+tt.flags+level, " ", ","), func(t *testing.T) {
					t.Parallel()
					s := subject(t, c.object(t, t.TempDir(), tt.src, tt.flags+" "+level), rule.BaselineObject)
					if tt.unit {
						s.Role, s.Unit = rule.ISAObject, &rule.Unit{Name: "hi", Entries: []string{"row_hi"}}
					}
					got, err := checkObject(t.Context(), s, &rule.Options{})
					if err != nil {
						t.Fatal(err)
					}
					if v := verdicts(got); v != tt.want {
						t.Errorf("got  %s\nwant %s\n%s", v, tt.want, explainAll(got))
					}
				})
			}
		}
	}
}

// TestArmBaselines holds that the baseline decides, and that apple-m1 has what
// Apple's first processor has: LSE, half precision, dot products and signed
// pointers, but no BF16 and no SVE.
func TestArmBaselines(t *testing.T) {
	c := needCross(t)[0]
	for _, tt := range []struct{ src, flags, armv8, m1 string }{
		{"hi_bump.cpp", lse, "E ISA-BASE, W ISA-TARGET-INLINE", ""},
		{"unit.c", "-march=armv8.2-a+dotprod", "E ISA-BASE", ""},
		{"fp16.c", "-march=armv8.2-a+fp16", "E ISA-BASE", ""},
		{"pauth.c", "-march=armv8.3-a", "E ISA-BASE", ""},
		{"rcpc.cpp", "-march=armv8.3-a", "E ISA-BASE", ""},
		{"crc.c", "-march=armv8-a+crc", "E ISA-BASE", ""},
		{"bf16.c", "-march=armv8.2-a+bf16", "E ISA-BASE", "E ISA-BASE"},
		{"i8mm.c", "-march=armv8.2-a+i8mm", "E ISA-BASE", "E ISA-BASE"},
		{"sve.c", "-march=armv8.2-a+sve -O3", "E ISA-BASE", "E ISA-BASE"},
		{"atomics.cpp", "-O2", "", ""},
	} {
		t.Run(tt.src, func(t *testing.T) {
			t.Parallel()
			path := c.object(t, t.TempDir(), tt.src, tt.flags)
			for _, b := range []struct{ baseline, want string }{{"", tt.armv8}, {"armv8-a", tt.armv8}, {"x86-64-v3", tt.armv8}, {"apple-m1", tt.m1}} {
				s := subject(t, path, rule.BaselineObject)
				s.Want.Baseline = b.baseline
				got, err := checkObject(t.Context(), s, &rule.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if v := verdicts(got); b.want == "" && v != "" || b.want != "" && !strings.Contains(v, "E ISA-BASE") && !strings.Contains(v, "W ISA-TARGET") {
					t.Errorf("baseline %q: got %q, want %q", b.baseline, v, b.want)
				}
			}
		})
	}
}

// armLinks are libraries of a unit and baseline code that share a header. A
// leak is at hand when the unit comes first, and latent otherwise.
var armLinks = []struct {
	name           string
	unit, flags    string
	base           string
	errs           string // with the unit first
	died           bool   // then
	both           bool   // the order makes no difference
	levels, needed string
}{
	{name: "bump", unit: "hi_bump.cpp", flags: lse, base: "base_bump.cpp", errs: "ISA-CALL ISA-PROV", died: true},
	{name: "half", unit: "hi_half.cpp", flags: "-march=armv8.2-a+fp16", base: "base_half.cpp", errs: "ISA-CALL ISA-PROV", died: true},
	{name: "scale", unit: "hi_scale.cpp", flags: "-march=armv8.2-a+sve", base: "base_scale.cpp", errs: "ISA-CALL ISA-PROV", died: true, levels: "-O3"},
	{name: "virtual", unit: "hi_virtual.cpp", flags: lse, base: "base_virtual.cpp", errs: "ISA-PROV", died: true, levels: "-O0"},
	{name: "init", unit: "hi_init.cpp", flags: lse, base: "base_bump.cpp", errs: "ISA-LOAD", died: true, both: true, levels: "-O2 -O3"},
	{name: "anon", unit: "hi_anon.cpp", flags: lse, base: "direct.c", both: true},
	{name: "outline", unit: "hi_bump.cpp", base: "base_bump.cpp", both: true},
	{name: "resolver", unit: "hi_resolver.c", flags: lse, errs: "ISA-LOAD", died: true, both: true},
	{name: "hints", unit: "unit.c", flags: "-march=armv8.2-a+dotprod -mbranch-protection=standard", base: "hints.c", both: true},
}

// TestArmLibraries links the leaks in both orders.
func TestArmLibraries(t *testing.T) {
	for _, c := range needCross(t) {
		for _, tt := range armLinks {
			levels := strings.Fields(tt.levels)
			if len(levels) == 0 {
				levels = []string{"-O0", "-O2", "-O3"}
			}
			if !full {
				levels = levels[:1]
			}
			for _, level := range levels {
				t.Run(c.name+"/"+tt.name+level, func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					unit := c.object(t, dir, tt.unit, tt.flags+" "+level)
					objs := []string{unit}
					errs, died := tt.errs, tt.died
					if tt.base != "" {
						flags := level
						if strings.Contains(tt.flags, "protection") {
							flags += " -mbranch-protection=standard"
						}
						objs = append(objs, c.object(t, dir, tt.base, flags))
					}
					judgeArm(t, dir, "unit-first", objs, unit, errs, "row", died)
					slices.Reverse(objs)
					if !tt.both {
						errs, died = "", false
					}
					judgeArm(t, dir, "unit-last", objs, unit, errs, "row", died)
				})
			}
		}
	}
}
