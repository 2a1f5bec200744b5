package isa

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// part is an object of a linked fixture.
type part struct {
	src, flags string
	unit       bool
}

var (
	pVec    = part{"avx2_vector.cpp", avx2 + "-O2", true}
	pDot    = part{"avx2_inline.cpp", avx2 + "-O2", true}
	pSum    = part{"avx2_template.cpp", avx2 + "-O2", true}
	pHalf   = part{"avx2_half.cpp", avx2 + "-O0", true}
	pClean  = part{"avx2_clean.cpp", avx2 + "-O2", true}
	pBDot   = part{"base_inline.cpp", "-O2", false}
	pBSum   = part{"base_template.cpp", "-O2", false}
	pBHalf  = part{"base_half.cpp", "-O0", false}
	pGuard  = part{"clean.c", "-O2", false}
	pGuard0 = part{"clean.c", "-O0", false}
	pPtr    = part{"clean_ptr.c", "-O2", false}
	pBare   = part{"unguarded.c", "-O2", false}
	pInit   = part{"avx2_static_init.cpp", avx2 + "-O2 -fvisibility=hidden", true}
	pGlobal = part{"avx2_global_vec.cpp", avx2 + "-O2 -fvisibility=hidden", true}
	pVirt   = part{"avx2_virtual.cpp", avx2 + "-O2", true}
	pTgt    = part{"target_attr.c", "-O2", false}
	pIfunc  = part{"ifunc.c", "-O2", false}
	pIfBad  = part{"ifunc_bad.c", avx2 + "-O2", true}
	pSort   = part{"avx2_lambda_sort.cpp", avx2 + "-O2", true}
	pWrap   = part{"avx2_wrap.cpp", avx2 + "-O2", true}
	pLambda = part{"avx2_lambda_inline.cpp", avx2 + "-O0", true}
)

// TestLibraries links the fixtures, judges the library before and after
// strip, and runs it on an old processor where qemu-user is there. run names
// what the driver calls; the verdict must agree with a SIGILL there, but for
// leaks that only callers above the baseline reach today (latent).
func TestLibraries(t *testing.T) {
	for _, c := range []struct {
		name   string
		parts  []part
		ld     string
		want   string // errors only
		run    string // symbol to call, empty for dlopen alone
		sigill bool
		latent bool
	}{
		{"leak_vector_avxfirst", []part{pVec, pGuard}, "", "ISA-PROV", "", false, true},
		{"leak_inline_avxfirst", []part{pDot, pBDot}, "", "ISA-CALL ISA-PROV", "base_dot", true, false},
		{"leak_inline_basefirst", []part{pBDot, pDot}, "", "", "base_dot", false, true},
		{"leak_inline_vscript", []part{pDot, pBDot}, "-Wl,--version-script=testdata/src/only_base.map", "ISA-CALL ISA-PROV", "base_dot", true, false},
		{"leak_template_avxfirst", []part{pSum, pBSum}, "", "ISA-CALL ISA-PROV", "base_dot", true, false},
		{"leak_template_basefirst", []part{pBSum, pSum}, "", "", "base_dot", false, true},
		{"leak_half_avxfirst", []part{pHalf, pBHalf}, "", "ISA-CALL ISA-PROV", "base_dot", true, false},
		{"leak_half_basefirst", []part{pBHalf, pHalf}, "", "", "base_dot", false, true},
		{"leak_virtual", []part{pVirt, pGuard}, "", "ISA-PROV", "", false, true},
		{"leak_lambda", []part{pLambda, pGuard}, "", "ISA-CALL ISA-PROV", "", false, true},
		{"lambda_sort", []part{pSort, pGuard}, "", "", "row", false, true},
		{"clean", []part{pClean, pGuard}, "", "", "row", false, false},
		{"clean_avxlast", []part{pGuard, pClean}, "", "", "row", false, false},
		{"clean_O0", []part{pClean, pGuard0}, "", "", "row", false, false},
		{"clean_ptr", []part{pClean, pPtr}, "", "", "row", false, false},
		{"clean_wrap", []part{pWrap, pGuard}, "", "", "row", false, false},
		{"unguarded", []part{pClean, pBare}, "", "ISA-CALL", "row", true, false},
		{"static_init", []part{pInit, pGuard}, "", "ISA-LOAD", "", true, false},
		{"global_vec", []part{pGlobal, pGuard}, "", "ISA-LOAD", "", true, false},
		{"target_attr", []part{pTgt}, "", "", "row", false, false},
		{"ifunc", []part{pIfunc}, "", "", "row", false, false},
		{"ifunc_bad", []part{pIfBad}, "", "ISA-LOAD", "row", true, false},
		{"v3_note", []part{pClean, pGuard}, "-Wl,-z,x86-64-v3", "ISA-NOTE", "", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var objs []string
			link := &rule.Link{}
			unit := &rule.Unit{Name: "avx2", Entries: []string{"row_avx2"}}
			for _, p := range c.parts {
				o := compile(t, dir, p.src, p.flags)
				objs = append(objs, o)
				s := subject(t, o, rule.BaselineObject)
				s.Link = link
				if p.unit {
					s.Role, s.Unit = rule.ISAObject, unit
				}
				link.Objects = append(link.Objects, s)
			}
			so := filepath.Join(dir, c.name+".so")
			args := append([]string{"-shared", "-o", so}, objs...)
			command(t, compiler(t), append(args, strings.Fields(c.ld)...)...)
			stripped := filepath.Join(dir, "stripped_"+c.name+".so")
			command(t, "strip", "-o", stripped, so)
			for _, path := range []string{so, stripped} {
				s := subject(t, path, rule.Linked)
				s.Link = link
				got, err := checkLibrary(t.Context(), s, &rule.Options{})
				if err != nil {
					t.Fatal(err)
				}
				var errs []rule.Finding
				for _, f := range got {
					if strings.HasPrefix(c.name, "clean") && f.Severity == rule.Warning {
						t.Errorf("a warning about a clean library:\n%s", explainAll([]rule.Finding{f}))
					}
					if f.Severity == rule.Error {
						errs = append(errs, f)
					}
				}
				if v := strings.ReplaceAll(strings.ReplaceAll(verdicts(errs), "E ", ""), ",", ""); v != c.want {
					t.Errorf("%s: got  %s\nwant %s\n%s", filepath.Base(path), v, c.want, explainAll(got))
				}
			}
			if !c.latent && c.sigill != (c.want != "") {
				t.Errorf("the table says %q, and SIGILL %v", c.want, c.sigill)
			}
			nehalem(t, dir, so, c.run, c.sigill)
		})
	}
}

// nehalem runs a library on an emulated processor without AVX.
func nehalem(t *testing.T, dir, so, call string, sigill bool) {
	qemu, err := exec.LookPath("qemu-x86_64")
	if err != nil {
		t.Log("no qemu-x86_64: the verdict was not compared with a run")
		return
	}
	driver := filepath.Join(dir, "driver")
	command(t, "gcc", "-o", driver, "testdata/src/driver.c", "-ldl")
	out, err := exec.CommandContext(t.Context(), qemu, "-cpu", "Nehalem", driver, so, call).CombinedOutput()
	died := err != nil
	if died != sigill {
		t.Errorf("on a Nehalem: %v %s; the table says SIGILL %v", err, out, sigill)
	}
}

// TestReal judges libraries that are known to be good for their baseline.
func TestReal(t *testing.T) {
	if !full {
		t.Skip("set THOXBUILD_TEST_FULL=1 to judge the libraries of .venv")
	}
	root, _ := filepath.Abs("../..")
	for _, pat := range []string{"numpy/_core/_multiarray_umath*.so", "numpy.libs/*openblas*.so", "torch/lib/libtorch_cpu.so", "torch/lib/libc10.so"} {
		m, _ := filepath.Glob(root + "/.venv/lib/python3*/site-packages/" + pat)
		for _, path := range m {
			t.Run(filepath.Base(path), func(t *testing.T) {
				f, err := os.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				s := fileSubject(t, f)
				s.Want.Baseline = "x86-64-v2"
				got, err := checkLibrary(t.Context(), s, &rule.Options{})
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range got {
					if x.Severity == rule.Error {
						t.Errorf("false alarm: %s", explainAll([]rule.Finding{x}))
					}
				}
				t.Logf("%s", explainAll(got))
			})
		}
	}
}
