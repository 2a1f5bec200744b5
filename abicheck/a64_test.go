package abicheck_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/thox-ai/thoxbuild/abicheck"
)

// TestArmFiles builds files for AArch64 as a user would hand them over, and
// holds the warnings and errors about each and the member that they name.
func TestArmFiles(t *testing.T) {
	const cc = "aarch64-linux-gnu-g++"
	if _, err := exec.LookPath(cc); err != nil {
		t.Skipf("%s is not installed (Debian: g++-aarch64-linux-gnu)", cc)
	}
	dir := t.TempDir()
	run := func(name string, args ...string) {
		t.Helper()
		if msg, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, msg)
		}
	}
	src := func(name string) string { return filepath.Join("isa", "testdata", "a64", name) }
	out := func(name string) string { return filepath.Join(dir, name) }
	object := func(name, source string, flags ...string) string {
		run(cc, append([]string{"-O2", "-fPIC", "-c", "-o", out(name), src(source)}, flags...)...)
		return out(name)
	}
	unit := object("unit.o", "hi_bump.cpp", "-march=armv8.1-a")
	shared := object("shared.o", "hi_shared.cpp", "-march=armv8.1-a")
	base := object("base.o", "base_bump.cpp")
	clean := object("clean.o", "atomics.cpp")
	run("aarch64-linux-gnu-ar", "rcs", out("libleak.a"), clean, unit, base, shared)
	run("aarch64-linux-gnu-ar", "rcs", out("libclean2.a"), clean, base)
	lib := func(name string, flags ...string) {
		run(cc, append([]string{"-shared", "-Wl,-z,now", "-Wl,--build-id", "-o", out(name)}, flags...)...)
		run("aarch64-linux-gnu-strip", "-o", out("stripped-"+name), out(name))
	}
	public := "-Wl,--version-script=" + src("row.map")
	lib("lib64k.so", clean, public)
	lib("lib4k.so", clean, public, "-Wl,-z,max-page-size=4096")
	lib("libinit.so", object("init.o", "hi_init.cpp", "-march=armv8.1-a"), clean, public)

	for _, tt := range []struct {
		file, baseline string
		want           []string // "ID member: symbol"
	}{
		{"unit.o", "", []string{"ISA-COMDAT unit.o: _Z8hdr_bumpPi"}},
		{"unit.o", "apple-m1", nil},
		{"base.o", "", nil},
		{"libleak.a", "armv8-a", []string{
			"ISA-COMDAT libleak.a(shared.o): _ZNSt16_Sp_counted_baseILN9__gnu_cxx12_Lock_policyE2EE24_M_release_last_use_coldEv",
			"ISA-COMDAT libleak.a(unit.o): _Z8hdr_bumpPi",
		}},
		{"libleak.a", "apple-m1", nil},
		{"libclean2.a", "", nil},
		{"lib64k.so", "", nil},
		{"lib4k.so", "", []string{"ALIGN lib4k.so: "}},
		{"libinit.so", "", []string{"ISA-LOAD libinit.so: "}},
		{"libinit.so", "apple-m1", nil},
	} {
		names := []string{tt.file}
		if strings.HasSuffix(tt.file, ".so") {
			names = append(names, "stripped-"+tt.file)
		}
		for _, name := range names {
			r, err := abicheck.Check(t.Context(), []string{out(name)}, &abicheck.Options{Baseline: tt.baseline, Manylinux: "none"})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range r.Findings {
				if f.Severity < abicheck.Warning {
					continue
				}
				symbol := f.Symbol
				if strings.HasSuffix(tt.file, ".so") {
					symbol = "" // gone after strip
				}
				place := strings.TrimPrefix(filepath.Base(f.File), "stripped-")
				if f.Member != "" {
					place += "(" + f.Member + ")"
				}
				got = append(got, f.ID+" "+place+": "+symbol)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, slices.Compact(got)); diff != "" {
				t.Errorf("%s, baseline %q (-want +got)\n%s", name, tt.baseline, diff)
			}
		}
	}
}
