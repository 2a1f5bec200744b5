package abicheck_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/thox-ai/thoxbuild/abicheck"
)

// TestBitcode holds that an object which is nothing but clang's bytecode is
// refused before the link, in a unit and in the baseline, as gcc's is.
func TestBitcode(t *testing.T) {
	clang, err := exec.LookPath("clang++-19")
	if err != nil {
		if clang, err = exec.LookPath("clang++"); err != nil {
			t.Skip("no clang to make bytecode with")
		}
	}
	obj := filepath.Join(t.TempDir(), "unit.o")
	if out, err := exec.CommandContext(t.Context(), clang, "-c", "-O2", "-fPIC", "-mavx2", "-flto", "-o", obj, "isa/testdata/dispatch/unit.cpp").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	archive := filepath.Join(filepath.Dir(obj), "libunit.a")
	if out, err := exec.CommandContext(t.Context(), "ar", "rcS", archive, obj).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, path := range []string{obj, archive} {
		r, err := abicheck.Check(t.Context(), []string{path}, nil)
		if err != nil || len(r.Findings) != 1 || r.Findings[0].ID != "ISA-LTO" {
			t.Errorf("%s: %v %+v", filepath.Base(path), err, r)
		}
	}
	for _, unit := range []*abicheck.Unit{nil, {Name: "avx2", Entries: []string{"row_avx2"}}} {
		r, err := abicheck.CheckObjects(t.Context(), []abicheck.Object{{Path: obj, Unit: unit}}, &abicheck.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Findings) != 1 || r.Findings[0].ID != "ISA-LTO" || !r.Failed() {
			t.Errorf("unit %v: %+v", unit, r.Findings)
		}
	}
}
