package isa

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// machObjects are fixtures of TestObjects and TestArmObjects as objects for
// macOS: an ISA unit with the named entry, or baseline code.
var machObjects = []struct {
	arch, src, flags, entry, want string
	levels                        string // empty for -O0, -O2 and -O3
}{
	{"x86_64", "src/avx2_clean.cpp", avx2, "row_avx2", "", "-O2 -O3"},
	{"x86_64", "src/anon.cpp", avx2, "row_avx2", "", "-O2 -O3"},
	{"x86_64", "src/avx2_inline.cpp", avx2, "row_avx2", "E ISA-COMDAT, W ISA-ENTRY-VIS", ""},
	{"x86_64", "src/avx2_template.cpp", avx2, "row_avx2", "E ISA-COMDAT, W ISA-ENTRY-VIS", ""},
	{"x86_64", "src/explicit_inst.cpp", avx2, "row_avx2", "E ISA-COMDAT, W ISA-ENTRY-VIS", ""},
	{"x86_64", "src/avx2_half.cpp", avx2, "row_avx2", "E ISA-COMDAT, W ISA-ENTRY-VIS", ""},
	{"x86_64", "src/avx2_half.cpp", avx2 + "-fvisibility=hidden -fvisibility-inlines-hidden", "row_avx2", "E ISA-COMDAT", ""},
	{"x86_64", "src/avx2_virtual.cpp", avx2, "row_avx2", "E ISA-COMDAT, W ISA-ENTRY-VIS", ""},
	{"x86_64", "src/avx2_static_local.cpp", avx2, "row_avx2", "E ISA-COMDAT, W ISA-ENTRY-VIS", ""},
	{"x86_64", "src/avx2_static_init.cpp", avx2, "row_avx2", "E ISA-INIT, W ISA-ENTRY-VIS", ""},
	{"x86_64", "src/ctor_attr.c", avx2, "row_avx2", "E ISA-INIT", ""},
	{"x86_64", "src/inlinevar.cpp", avx2, "row_avx2", "E ISA-COMDAT, E ISA-INIT, W ISA-ENTRY-VIS", "-O0"},
	{"x86_64", "src/weak_attr.c", avx2, "row_avx2", "E ISA-COMDAT, W ISA-ENTRY-VIS", ""},
	{"x86_64", "src/strong_extra.c", avx2, "row_avx2", "E ISA-ENTRY", ""},
	{"x86_64", "src/bmi3.cpp", "-mbmi2", "row_avx2", "E ISA-COMDAT", "-O2 -O3"}, // clang uses no BMI2 at -O0
	{"x86_64", "src/ctz.cpp", "", "", "", ""},
	{"x86_64", "src/target_attr_bad.c", "", "", "E ISA-BASE", ""},
	{"x86_64", "src/target_attr_inline.cpp", "", "", "W ISA-TARGET-INLINE", ""},
	{"x86_64", "src/inline_asm.c", "", "", "E ISA-BASE", ""},
	{"x86_64", "src/unguarded.c", "", "", "", ""},
	{"x86_64", "src/base_inline.cpp", "", "", "", ""},
	{"x86_64", "src/mac_op.c", "", "", "", ""},
	{"x86_64", "src/mac_unit.c", "-mavx2", "row", "", ""},
	{"x86_64", "src/mac_unit.c", "-mavx2 -DAT_LOAD", "row", "E ISA-INIT", ""},

	{"aarch64", "a64/fp16.c", "-march=armv8.2-a+fp16", "row_hi", "", ""},
	{"aarch64", "a64/bf16.c", "-march=armv8.2-a+bf16", "row_hi", "", ""},
	{"aarch64", "a64/hi_bump.cpp", lse, "row_hi", "E ISA-COMDAT", ""},
	{"aarch64", "a64/hi_half.cpp", "-march=armv8.2-a+fp16", "row_hi", "E ISA-COMDAT", ""},
	{"aarch64", "a64/hi_virtual.cpp", lse, "row_hi", "E ISA-COMDAT", ""},
	{"aarch64", "a64/hi_init.cpp", lse, "row_hi", "E ISA-INIT", "-O2 -O3"},
	{"aarch64", "a64/hi_init.cpp", lse, "row_hi", "E ISA-COMDAT, E ISA-INIT", "-O0"}, // the constructor is no longer inlined
	{"aarch64", "a64/hi_inlinevar.cpp", lse + "-std=c++17", "row_hi", "E ISA-COMDAT, E ISA-INIT", "-O0"},
	{"aarch64", "a64/hi_anon.cpp", lse, "row_hi", "", ""},
	{"aarch64", "a64/hi_public.c", lse, "row_hi", "E ISA-ENTRY, W ISA-ENTRY-VIS", ""},
	{"aarch64", "a64/hi_weak.c", lse, "row_hi", "E ISA-COMDAT", ""},
	{"aarch64", "a64/crc.c", "-march=armv8-a+crc", "", "E ISA-BASE", ""},
	{"aarch64", "a64/pauth.c", "-march=armv8.3-a", "", "E ISA-BASE", ""},
	{"aarch64", "a64/atomics.cpp", "", "", "", ""},
	{"aarch64", "a64/atomics.cpp", lse, "", "E ISA-BASE", "-O2 -O3"},
	{"aarch64", "a64/direct.c", "", "", "", ""},
	{"aarch64", "src/mac_op.c", "", "", "", ""},
}

// machCompile builds a source for a Mac without what only newer ones have.
func machCompile(run func(...string), arch, src, flags, out string) {
	cc, cpu := "c++", "x86_64"
	if strings.HasSuffix(src, ".c") {
		cc = "cc"
	}
	if arch == "aarch64" {
		cpu = "generic"
	}
	args := []string{cc, "-target", arch + "-macos", "-g0", "-fno-sanitize=all", "-fno-stack-protector"}
	for _, f := range strings.Fields(flags) {
		if march, ok := strings.CutPrefix(f, "-march="); ok {
			cpu = zigCPU(march)
		} else {
			args = append(args, f)
		}
	}
	run(append(args, "-mcpu="+cpu, "-c", filepath.Join("testdata", src), "-o", out)...)
}

// TestMachObjects holds that an object for macOS gets the verdict that the
// same source gets in ELF.
func TestMachObjects(t *testing.T) {
	run := zig(t)
	for _, c := range machObjects {
		levels := strings.Fields(c.levels)
		if len(levels) == 0 {
			levels = []string{"-O0", "-O2", "-O3"}
		}
		if !full {
			levels = levels[len(levels)/2:][:1]
		}
		for _, level := range levels {
			t.Run(strings.ReplaceAll(c.arch+" "+c.src+" "+c.flags+level, " ", ","), func(t *testing.T) {
				out := filepath.Join(t.TempDir(), "x.o")
				machCompile(run, c.arch, c.src, c.flags+" "+level, out)
				s := machSubject(t, out)
				s.Role, s.Want.Baseline = rule.BaselineObject, "x86-64"
				if c.arch == "aarch64" {
					s.Want.Baseline = "armv8-a"
				}
				if c.entry != "" {
					s.Role, s.Unit = rule.ISAObject, &rule.Unit{Name: "u", Entries: []string{c.entry}}
				}
				got, err := runObject(t.Context(), s, &rule.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if v := verdicts(got); v != c.want {
					t.Errorf("got  %s\nwant %s\n%s", v, c.want, explainAll(got))
				}
				for _, f := range got {
					if f.Severity == rule.Error && f.HasOffset && (f.Section == "" || f.Symbol == "") {
						t.Errorf("no place: %+v", f)
					}
				}
			})
		}
	}
}

// TestMachProvenance links objects for macOS in both orders: the dylib holds
// the unit's copy of a shared function or the baseline's, and the rule that
// compares it with its objects has to tell which.
func TestMachProvenance(t *testing.T) {
	run := zig(t)
	for _, c := range []struct {
		arch, unit, flags, entry, base string
		leaks                          bool
	}{
		{"x86_64", "src/avx2_inline.cpp", avx2, "row_avx2", "src/base_inline.cpp", true},
		{"x86_64", "src/avx2_template.cpp", avx2, "row_avx2", "src/base_template.cpp", true},
		{"x86_64", "src/avx2_clean.cpp", avx2, "row_avx2", "src/base_inline.cpp", false},
		{"x86_64", "src/mac_unit.c", "-mavx2", "row", "src/mac_op.c", false},
		{"aarch64", "a64/hi_bump.cpp", lse, "row_hi", "a64/base_bump.cpp", true},
		{"aarch64", "a64/hi_half.cpp", "-march=armv8.2-a+fp16", "row_hi", "a64/base_half.cpp", true},
		{"aarch64", "a64/hi_anon.cpp", lse, "row_hi", "a64/base_bump.cpp", false},
		{"aarch64", "src/mac_unit.c", "-march=armv8.2-a+bf16", "row", "src/mac_op.c", false},
	} {
		t.Run(strings.ReplaceAll(c.arch+" "+c.unit, "/", "_"), func(t *testing.T) {
			at := filepath.Join(t.TempDir(), "k")
			machCompile(run, c.arch, c.unit, c.flags+" -O2", at+"_unit.o")
			machCompile(run, c.arch, c.base, "-O2", at+"_op.o")
			us, bs := machSubject(t, at+"_unit.o"), machSubject(t, at+"_op.o")
			us.Role, us.Unit, bs.Role = rule.ISAObject, &rule.Unit{Name: "u", Entries: []string{c.entry}}, rule.BaselineObject
			for _, unitFirst := range []bool{true, false} {
				link := &rule.Link{Objects: []*rule.Subject{us, bs}}
				objects := []string{at + "_unit.o", at + "_op.o"}
				if !unitFirst {
					slices.Reverse(link.Objects)
					slices.Reverse(objects)
				}
				file := at + ".dylib"
				machLink(t, c.arch, file, objects)
				for _, file := range []string{file, dropLocals(t, file)} {
					s := machSubject(t, file)
					s.Role = rule.Linked
					for _, x := range []*rule.Subject{us, bs, s} {
						x.Link, x.Want.Baseline = link, map[string]string{"x86_64": "x86-64", "aarch64": "armv8-a"}[c.arch]
					}
					got, err := runLibrary(t.Context(), s, &rule.Options{})
					if err != nil {
						t.Fatal(err)
					}
					prov := strings.Contains(verdicts(got), "E ISA-PROV")
					if want := c.leaks && unitFirst; prov != want {
						t.Errorf("%s, unit first %v: the leak is found: %v, want %v\n%s", filepath.Base(file), unitFirst, prov, want, explainAll(got))
					}
				}
			}
		})
	}
}

// machLink links objects into a dylib with lld, which makes shorter
// instructions of what the compiler says it may.
func machLink(t *testing.T, arch, out string, objects []string) {
	t.Helper()
	lld, err := exec.LookPath("ld64.lld-19")
	if err != nil {
		t.Skip("no ld64.lld-19 (Debian: lld-19) to link Mach-O files with")
	}
	name := strings.Replace(arch, "aarch64", "arm64", 1)
	command(t, lld, append([]string{"-dylib", "-arch", name, "-platform_version", "macos", "15.0", "15.0", "-undefined", "dynamic_lookup", "-o", out}, objects...)...)
}

// TestMachUnlisted: zig's linker lists no functions, and leaves the code of a
// function that it takes from another object where it was. Nothing can be said
// of where code comes from then, which is noted.
func TestMachUnlisted(t *testing.T) {
	run := zig(t)
	at := filepath.Join(t.TempDir(), "k")
	machCompile(run, "x86_64", "src/avx2_inline.cpp", avx2+" -O2", at+"_unit.o")
	machCompile(run, "x86_64", "src/base_inline.cpp", "-O2", at+"_op.o")
	run("build-lib", "-dynamic", "-fno-compiler-rt", "-fno-ubsan-rt", "-lc", "-target", "x86_64-macos", "-femit-bin="+at+".dylib", at+"_op.o", at+"_unit.o")
	us, s := machSubject(t, at+"_unit.o"), machSubject(t, at+".dylib")
	us.Role, us.Unit, s.Role = rule.ISAObject, &rule.Unit{Name: "u", Entries: []string{"row_avx2"}}, rule.Linked
	us.Link = &rule.Link{Objects: []*rule.Subject{us}}
	s.Link = us.Link
	got, err := runLibrary(t.Context(), s, &rule.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if v := verdicts(got); strings.Contains(v, "ISA-PROV") || !strings.Contains(explainAll(got), "note[ISA-PROV]") {
		t.Errorf("got %q\n%s", v, explainAll(got))
	}
}
