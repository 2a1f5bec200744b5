package isa

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

var full = os.Getenv("THOXBUILD_TEST_FULL") != ""

// compiler finds g++ or skips.
func compiler(t testing.TB) string {
	t.Helper()
	p, err := exec.LookPath("g++")
	if err != nil {
		t.Skip("no g++ to build the fixtures with")
	}
	return p
}

// command runs a tool and fails the test with its output.
func command(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// compile builds one source of testdata/src into dir.
func compile(t testing.TB, dir, src, flags string) string {
	t.Helper()
	cxx := compiler(t)
	if strings.HasSuffix(src, ".c") || strings.HasSuffix(src, ".s") {
		cxx = strings.Replace(cxx, "g++", "gcc", 1)
	}
	out := filepath.Join(dir, strings.NewReplacer(".", "_", " ", "", "=", "_", "-", "_", "/", "_").Replace(src+flags)+".o")
	if _, err := os.Stat(out); err == nil {
		return out
	}
	args := append([]string{"-c", "-fPIC", "-o", out, filepath.Join("testdata/src", src)}, strings.Fields(flags)...)
	command(t, cxx, args...)
	return out
}

// subject opens a file as the frame would.
func subject(t testing.TB, path string, role rule.Role) *rule.Subject {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elffile.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return &rule.Subject{File: filepath.Base(path), Name: filepath.Base(path), Data: bytes.NewReader(b), Size: int64(len(b)), ELF: f, Role: role}
}

// verdicts prints findings as "E ISA-COMDAT", sorted, notes left out.
func verdicts(fs []rule.Finding) string {
	var out []string
	for _, f := range fs {
		switch f.Severity {
		case rule.Error:
			out = append(out, "E "+f.ID)
		case rule.Warning:
			out = append(out, "W "+f.ID)
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ", ")
}

const avx2 = "-mavx2 -mfma -mf16c "

// TestObjects is the table of fixtures that are single objects. Verdicts that
// depend on the optimiser are listed per level.
func TestObjects(t *testing.T) {
	for _, c := range []struct {
		src, flags string
		unit       bool // an ISA unit with the entry row_avx2
		baseline   string
		want       string
		levels     string // the levels that the verdict holds for; empty for -O0, -O2 and -O3
	}{
		{"avx2_clean.cpp", avx2, true, "", "", "-O2 -O3"},
		{"anon.cpp", avx2, true, "", "", "-O2 -O3"},
		{"avx2_vector.cpp", avx2, true, "", "E ISA-COMDAT, W ISA-ENTRY-VIS", "-O2"},
		{"avx2_vector.cpp", avx2 + "-fvisibility=hidden -fvisibility-inlines-hidden", true, "", "E ISA-COMDAT", "-O0 -O2"},
		{"avx2_max.cpp", avx2, true, "", "W ISA-ENTRY-VIS", "-O2 -O3"},
		{"avx2_max.cpp", avx2, true, "", "E ISA-COMDAT, W ISA-ENTRY-VIS", "-O0"},
		{"avx2_inline.cpp", avx2, true, "", "E ISA-COMDAT, W ISA-ENTRY-VIS", "-O0 -O2"},
		{"avx2_template.cpp", avx2, true, "", "E ISA-COMDAT, W ISA-ENTRY-VIS", "-O0 -O2"},
		{"explicit_inst.cpp", avx2, true, "", "E ISA-COMDAT, W ISA-ENTRY-VIS", ""},
		{"avx2_half.cpp", avx2, true, "", "E ISA-COMDAT, W ISA-ENTRY-VIS", ""},
		{"comdat_local.s", "", true, "", "E ISA-COMDAT, E ISA-ENTRY", "-O2"},
		{"avx2_lambda_sort.cpp", avx2, true, "", "W ISA-ENTRY-VIS", ""},
		{"avx2_lambda_inline.cpp", avx2, true, "", "E ISA-COMDAT, W ISA-ENTRY-VIS", "-O0"},
		{"avx2_static_local.cpp", avx2, true, "", "E ISA-COMDAT, W ISA-ENTRY-VIS", ""},
		{"avx2_static_local.cpp", avx2 + "-fno-gnu-unique", true, "", "E ISA-COMDAT, W ISA-ENTRY-VIS", ""},
		{"avx2_virtual.cpp", avx2, true, "", "E ISA-COMDAT, W ISA-ENTRY-VIS", ""},
		{"avx2_static_init.cpp", avx2, true, "", "E ISA-INIT, W ISA-ENTRY-VIS", "-O2 -O3"},
		{"avx2_global_vec.cpp", avx2, true, "", "E ISA-INIT, W ISA-ENTRY-VIS", "-O2"},
		{"ctor_attr.c", avx2, true, "", "E ISA-INIT", ""},
		{"inlinevar.cpp", avx2, true, "", "E ISA-INIT, W ISA-ENTRY-VIS", "-O2"},
		{"inlinevar.cpp", avx2, true, "", "E ISA-COMDAT, E ISA-INIT, W ISA-ENTRY-VIS", "-O0"},
		{"avx512_inline.cpp", "-mavx512f -mavx512vl", true, "", "E ISA-COMDAT, W ISA-ENTRY-VIS", "-O0 -O2"},
		{"avx2_template.cpp", "-march=x86-64-v3", true, "", "E ISA-COMDAT, W ISA-ENTRY-VIS", "-O2"},
		{"sse42_template.cpp", "-msse4.2", true, "x86-64", "E ISA-COMDAT", "-O0"},
		{"sse42_template.cpp", "-msse4.2", true, "x86-64-v2", "", "-O0"},
		{"bmi3.cpp", "-mbmi2", true, "", "E ISA-COMDAT", ""},
		{"ctz.cpp", "", false, "", "", ""},
		{"weak_attr.c", avx2, true, "", "E ISA-COMDAT, W ISA-ENTRY-VIS", ""},
		{"strong_extra.c", avx2, true, "", "E ISA-ENTRY", ""},
		{"target_attr.c", "", false, "", "", ""},
		{"target_attr_bad.c", "", false, "", "E ISA-BASE", ""},
		{"target_attr_inline.cpp", "", false, "", "W ISA-TARGET-INLINE", "-O2 -O3"},
		{"pragma_before_std.cpp", "", false, "", "E ISA-BASE, E ISA-COMDAT-MIXED", "-O0"},
		{"ifunc.c", "", false, "", "", ""},
		{"ifunc_bad.c", avx2, true, "", "E ISA-ENTRY, E ISA-IFUNC", "-O2"},
		{"inline_asm.c", "", false, "", "E ISA-BASE", ""},
		{"asm_table.s", "", false, "", "", "-O2"},
		{"avx2_inline.cpp", avx2 + "-flto", true, "", "E ISA-LTO", "-O2"},
		{"avx2_tls.cpp", avx2, true, "", "E ISA-COMDAT, W ISA-ENTRY-VIS", "-O2"},
		{"unguarded.c", "", false, "", "", ""},
		{"clean.c", "", false, "", "", ""},
		{"base_inline.cpp", "", false, "", "", ""},
	} {
		levels := strings.Fields(c.levels)
		if len(levels) == 0 {
			levels = []string{"-O0", "-O2", "-O3"}
			if !full {
				levels = levels[1:2]
			}
		}
		for _, level := range levels {
			t.Run(strings.ReplaceAll(c.src+" "+c.flags+level+" "+c.baseline, " ", ","), func(t *testing.T) {
				t.Parallel()
				path := compile(t, t.TempDir(), c.src, c.flags+" "+level)
				s := subject(t, path, rule.BaselineObject)
				s.Want.Baseline = c.baseline
				if c.unit {
					s.Role = rule.ISAObject
					entry := "row_avx2"
					switch {
					case strings.HasPrefix(c.src, "avx512"):
						entry = "row_avx512"
					case strings.HasPrefix(c.src, "sse42"):
						entry = "row_sse"
					}
					s.Unit = &rule.Unit{Name: "avx2", Entries: []string{entry}}
				}
				got, err := checkObject(t.Context(), s, &rule.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if v := verdicts(got); v != c.want {
					t.Errorf("got  %s\nwant %s\n%s", v, c.want, explainAll(got))
				}
				for _, f := range got {
					if f.Message == "" || f.Severity == rule.Error && f.Fix == "" {
						t.Errorf("a finding without message or fix: %+v", f)
					}
				}
			})
		}
	}
}

func explainAll(fs []rule.Finding) string {
	var b strings.Builder
	for i := range fs {
		f := &fs[i]
		b.WriteString(f.Severity.String() + "[" + f.ID + "]: " + f.Place() + ": " + f.Message + "\n")
		for _, d := range f.Detail {
			b.WriteString("    " + d + "\n")
		}
	}
	return b.String()
}

// fileSubject is subject without reading the file into memory.
func fileSubject(t testing.TB, f *os.File) *rule.Subject {
	t.Helper()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	e, err := elffile.New(f, st.Size())
	if err != nil {
		t.Fatal(err)
	}
	return &rule.Subject{File: f.Name(), Name: filepath.Base(f.Name()), Data: f, Size: st.Size(), ELF: e}
}
