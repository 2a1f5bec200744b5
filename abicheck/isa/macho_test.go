package isa

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/abicheck/machofile"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// wholeZig matches the whole compiler. The store has what a kit needs of it.
const wholeZig = "../../.venv/lib/python3*/site-packages/ziglang/zig"

// zig finds the zig of the tests' environment, which compiles and links for
// macOS anywhere, or skips.
func zig(t *testing.T) func(args ...string) {
	t.Helper()
	found, _ := filepath.Glob(wholeZig)
	if len(found) == 0 {
		t.Skip("no zig in .venv to make Mach-O files with; run make venv")
	}
	cache := t.TempDir()
	return func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), found[0], args...)
		cmd.Env = append(os.Environ(), "ZIG_GLOBAL_CACHE_DIR="+cache, "ZIG_LOCAL_CACHE_DIR="+cache)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("zig %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func machSubject(t *testing.T, path string) *rule.Subject {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := machofile.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return &rule.Subject{File: filepath.Base(path), Name: filepath.Base(path), Data: bytes.NewReader(b), Size: int64(len(b)), MachO: f}
}

// TestMachO judges dylibs that zig makes for both processors of a Mac, with
// and without their symbols: the verdict must be the same.
func TestMachO(t *testing.T) {
	run := zig(t)
	dir := t.TempDir()
	for _, arch := range []struct{ name, flags, feat string }{
		{"x86_64", "-mavx2", "AVX"},
		{"aarch64", "-mcpu=apple_m1+bf16", "BF16"},
	} {
		for _, c := range []struct {
			name, unit, op string
			want           string // ids of errors and notes about code that is reached
		}{
			{"clean", "", "", ""},
			{"bare", "", "-DBARE", "note ISA-CALL"},
			{"init", "-DAT_LOAD", "", "error ISA-LOAD"},
		} {
			for _, level := range []string{"-O0", "-O2"} {
				name := strings.Join([]string{arch.name, c.name, level}, "")
				t.Run(name, func(t *testing.T) {
					at := filepath.Join(dir, name)
					flags := func(more ...string) []string {
						var out []string
						for _, f := range append([]string{"cc", "-target", arch.name + "-macos", "-g0", "-fno-sanitize=all", "-fno-stack-protector", level}, more...) {
							if f != "" {
								out = append(out, f)
							}
						}
						return out
					}
					run(flags(arch.flags, c.unit, "-c", "testdata/src/mac_unit.c", "-o", at+"_unit.o")...)
					run(flags(c.op, "-c", "testdata/src/mac_op.c", "-o", at+"_op.o")...)
					link := []string{"build-lib", "-dynamic", "-fno-compiler-rt", "-fno-ubsan-rt", "-lc", "-target", arch.name + "-macos", at + "_unit.o", at + "_op.o"}
					run(append(link, "-femit-bin="+at+".dylib")...)
					files := []string{at + ".dylib"}
					if chained := chain(t, arch.name, at); chained != "" {
						files = append(files, chained)
					}
					for _, f := range files {
						files = append(files, dropLocals(t, f))
					}
					for _, file := range files {
						s := machSubject(t, file)
						got, err := checkMachO(t.Context(), s, &rule.Options{})
						if err != nil {
							t.Fatal(err)
						}
						var reached []string
						for _, f := range got {
							if f.ID == "ISA-LOAD" || f.ID == "ISA-CALL" {
								reached = append(reached, f.Severity.String()+" "+f.ID)
							}
						}
						want := c.want
						if c.name == "bare" && level == "-O2" && file == at+"_stripped.dylib" {
							// zig lists no functions, and row is only jumped to, so
							// it counts as a part of op, which is exported.
							want = ""
						}
						if v := strings.Join(reached, ", "); v != want {
							t.Errorf("%s: got %q, expected %q\n%s", filepath.Base(file), v, want, explainAll(got))
						}
						if c.name == "init" && !strings.Contains(explainAll(got), arch.feat) {
							t.Errorf("%s: %s is not named\n%s", filepath.Base(file), arch.feat, explainAll(got))
						}
					}
				})
			}
		}
	}
}

// chain links the objects as Apple's linker of today does, with chained
// fixups, where an lld for Mach-O is installed; zig writes the older form.
func chain(t *testing.T, arch, at string) string {
	t.Helper()
	lld, err := exec.LookPath("ld64.lld-19")
	if err != nil {
		return ""
	}
	if arch == "aarch64" {
		arch = "arm64"
	}
	stub := at + "_libSystem.tbd"
	text := "--- !tapi-tbd\ntbd-version: 4\ntargets: [ " + arch + "-macos ]\ninstall-name: '/usr/lib/libSystem.B.dylib'\nexports:\n  - targets: [ " +
		arch + "-macos ]\n    symbols: [ _sysctlbyname, dyld_stub_binder ]\n...\n"
	if err := os.WriteFile(stub, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out := at + "_chained.dylib"
	command(t, lld, "-dylib", "-arch", arch, "-platform_version", "macos", "15.0", "15.0", "-fixup_chains", "-o", out, at+"_unit.o", at+"_op.o", stub)
	s := machSubject(t, out)
	if !s.MachO.Chained() {
		t.Errorf("%s has no chained fixups", out)
	}
	return out
}

// dropLocals writes the file without the symbols that strip -x takes away: each
// becomes an entry for debuggers.
func dropLocals(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	dropped := 0
	for at, n := uint32(32), le.Uint32(b[16:]); n > 0; n-- {
		if le.Uint32(b[at:]) == 2 { // LC_SYMTAB
			for i, y := le.Uint32(b[at+12:]), b[le.Uint32(b[at+8:]):]; i > 0; i, y = i-1, y[16:] {
				if y[4]&1 == 0 {
					y[4] = 0x20
					dropped++
				}
			}
		}
		at += le.Uint32(b[at+4:])
	}
	if dropped == 0 {
		t.Errorf("%s has no local symbols", file)
	}
	out := strings.TrimSuffix(file, ".dylib") + "_stripped.dylib"
	if err := os.WriteFile(out, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestMachOBaselines: a Mac has more than the oldest processor of its
// architecture, and a slice for Haswell more than that.
func TestMachOBaselines(t *testing.T) {
	run := zig(t)
	at := filepath.Join(t.TempDir(), "k")
	run("cc", "-target", "x86_64-macos", "-mavx2", "-g0", "-fno-sanitize=all", "-O2", "-DAT_LOAD", "-c", "testdata/src/mac_unit.c", "-o", at+".o")
	run("build-lib", "-dynamic", "-fno-compiler-rt", "-fno-ubsan-rt", "-lc", "-target", "x86_64-macos", at+".o", "-femit-bin="+at+".dylib")
	for _, c := range []struct {
		asked   string
		haswell bool
		errors  int
	}{{"", false, 1}, {"x86-64", false, 1}, {"x86-64-v3", false, 0}, {"apple-m1", false, 1}, {"", true, 0}} {
		s := machSubject(t, at+".dylib")
		s.Want.Baseline = c.asked
		if c.haswell {
			s.MachO.SubCPU = 8
		}
		got, err := checkMachO(t.Context(), s, &rule.Options{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, f := range got {
			if f.Severity == rule.Error {
				n++
			}
		}
		if n != c.errors {
			t.Errorf("baseline %q, Haswell slice %v: %d errors, expected %d\n%s", c.asked, c.haswell, n, c.errors, explainAll(got))
		}
	}
}
