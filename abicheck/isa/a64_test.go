package isa

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// A cross is a compiler for AArch64.
type cross struct {
	name string
	cc   []string // compiles C and links C
	cxx  []string
	env  []string
}

// crosses finds GCC, clang and zig's clang for AArch64. GCC brings the C
// library that all three compile for and run with.
var crosses = sync.OnceValue(func() []cross {
	gcc, err := exec.LookPath("aarch64-linux-gnu-gcc")
	if err != nil {
		return nil
	}
	gxx, err := exec.LookPath("aarch64-linux-gnu-g++")
	if err != nil {
		return nil
	}
	all := []cross{{name: "gcc", cc: []string{gcc}, cxx: []string{gxx}}}
	for _, n := range []string{"clang-19", "clang"} {
		if p, err := exec.LookPath(n); err == nil {
			c := []string{p, "--target=aarch64-linux-gnu", "-Wno-unused-command-line-argument"}
			all = append(all, cross{name: "clang", cc: c, cxx: append(slices.Clone(c), "-xc++")})
			break
		}
	}
	if m, _ := filepath.Glob(wholeZig); len(m) > 0 {
		cache := filepath.Join(os.TempDir(), fmt.Sprintf("thoxbuild-zig-%d", os.Getuid()))
		target := []string{"-target", "aarch64-linux-gnu.2.28", "-fno-sanitize=all"}
		zig := m[len(m)-1]
		all = append(all, cross{
			name: "zig",
			cc:   append([]string{zig, "cc"}, target...),
			cxx:  append([]string{zig, "c++"}, target...),
			env:  []string{"ZIG_GLOBAL_CACHE_DIR=" + cache, "ZIG_LOCAL_CACHE_DIR=" + cache},
		})
	}
	return all
})

// needCross returns the compilers to test with: all of them in the long form,
// else GCC.
func needCross(t *testing.T) []cross {
	t.Helper()
	c := crosses()
	if len(c) == 0 {
		t.Skip("no aarch64-linux-gnu-g++ (Debian: g++-aarch64-linux-gnu) to build the fixtures with")
	}
	if !full {
		c = c[:1]
	}
	return c
}

// object compiles a file of testdata/a64 into dir.
func (c *cross) object(t testing.TB, dir, src, flags string) string {
	t.Helper()
	argv := c.cxx
	if strings.HasSuffix(src, ".c") || strings.HasSuffix(src, ".s") {
		argv = c.cc
	}
	out := filepath.Join(dir, strings.NewReplacer(".", "_", " ", "", "=", "_", "/", "_").Replace(src+flags)+".o")
	args := append(slices.Clone(argv[1:]), "-c", "-fPIC", "-o", out)
	for _, f := range strings.Fields(flags) {
		if march, ok := strings.CutPrefix(f, "-march="); ok && c.name == "zig" {
			f = "-mcpu=" + zigCPU(march)
		}
		args = append(args, f)
	}
	c.run(t, argv[0], append(args, filepath.Join("testdata/a64", src))...)
	return out
}

// zigCPU says -march=armv8.1-a+sve in zig's words.
func zigCPU(march string) string {
	arch, feats, _ := strings.Cut(march, "+")
	cpu := "generic"
	if arch != "armv8-a" {
		cpu += "+" + strings.NewReplacer("armv", "v", ".", "_", "-", "").Replace(arch)
	}
	for _, f := range strings.Split(feats, "+") {
		switch f {
		case "":
		case "fp16":
			cpu += "+fullfp16"
		default:
			cpu += "+" + f
		}
	}
	return cpu
}

func (c *cross) run(t testing.TB, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), c.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// armLink makes a library of objects with GCC's driver, whose library holds the
// outline atomics that the objects call.
func armLink(t testing.TB, out string, args ...string) {
	t.Helper()
	command(t, crosses()[0].cxx[0], append([]string{"-shared", "-o", out}, args...)...)
}

// oldCPU is an ARMv8.0 processor with nothing but CRC and AES beside.
const oldCPU = "cortex-a35"

// cortex loads a library on an emulated Cortex-A35 and calls one function of
// it, none for an empty name. It reports whether that ended in SIGILL; ok is
// false where qemu-user is not installed.
func cortex(t *testing.T, so, call string) (died, ok bool) {
	t.Helper()
	qemu, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		t.Log("no qemu-aarch64 (Debian: qemu-user): the verdict was not compared with a run")
		return false, false
	}
	out, err := exec.CommandContext(t.Context(), qemu, "-cpu", oldCPU, "-L", "/usr/aarch64-linux-gnu", armDriver(t), so, call).CombinedOutput()
	switch {
	case err == nil:
		return false, true
	case strings.Contains(err.Error(), "illegal instruction") || strings.Contains(string(out), "Illegal instruction"):
		return true, true
	}
	t.Fatalf("%s on a %s: %v\n%s", filepath.Base(so), oldCPU, err, out)
	return false, false
}

var driver struct {
	sync.Mutex
	path string
}

// armDriver builds the program that loads a library, once.
func armDriver(t *testing.T) string {
	t.Helper()
	driver.Lock()
	defer driver.Unlock()
	if driver.path == "" {
		dir, err := os.MkdirTemp("", "thoxbuild-a64-")
		if err != nil {
			t.Fatal(err)
		}
		cleanups = append(cleanups, func() { os.RemoveAll(dir) })
		command(t, crosses()[0].cc[0], "-rdynamic", "-o", filepath.Join(dir, "driver"), "testdata/a64/driver.c", "-ldl")
		driver.path = filepath.Join(dir, "driver")
	}
	return driver.path
}

var cleanups []func()

func TestMain(m *testing.M) {
	code := m.Run()
	for _, f := range cleanups {
		f()
	}
	os.Exit(code)
}

// armIdioms are the ways to dispatch at run time. Each is linked with a unit
// that needs a dot product. errs are the errors that the library must get and
// get no other; died tells that it dies on the old processor.
var armIdioms = []struct {
	src  string
	errs string
	died bool
	only string // a compiler that the idiom needs
}{
	{src: "direct.c"},
	{src: "cached.c"},
	{src: "ctor_flag.c"},
	{src: "pointer.c"},
	{src: "table.c"},
	{src: "resolver.c"},
	{src: "resolver_arg.c"},
	{src: "idreg.c"},
	{src: "singleton.cpp"},
	{src: "level.cpp"},
	{src: "param.c"},
	{src: "chain.c"},
	{src: "outparam.c"},
	{src: "outlocal.c"},
	{src: "sysctl.c"},
	{src: "dlsym.c"},
	{src: "both.c"},
	{src: "lse_flag.c", only: "gcc"},
	{src: "fmv.c", only: "clang"},
	{src: "unguarded.c", errs: "ISA-CALL", died: true},
	{src: "anyway.c", errs: "ISA-CALL", died: true},
	{src: "other_test.c", errs: "ISA-CALL", died: true},
	{src: "ctor_calls.c", errs: "ISA-LOAD", died: true},
	{src: "resolver_bad.c", errs: "ISA-LOAD", died: true},
}

// TestArmDispatch holds that run-time dispatch on AArch64 is understood: no
// finding for what tests the processor, an error for what does not, the same
// after strip and in both link orders, and that an emulated old processor
// agrees.
func TestArmDispatch(t *testing.T) {
	levels := []string{"-O0", "-O2", "-O3"}
	for _, c := range needCross(t) {
		for _, tt := range armIdioms {
			if tt.only != "" && tt.only != c.name {
				continue
			}
			for _, level := range levels {
				if !full && level == "-O3" {
					continue
				}
				t.Run(c.name+"/"+tt.src+level, func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					base := []string{c.object(t, dir, tt.src, level)}
					if tt.src == "fmv.c" {
						base = append(base, c.object(t, dir, "fmv_rt.c", level))
					}
					unit := c.object(t, dir, "unit.c", "-march=armv8.2-a+dotprod "+level)
					for i, objs := range [][]string{append([]string{unit}, base...), append(slices.Clone(base), unit)} {
						if i == 1 && !full {
							break
						}
						judgeArm(t, dir, fmt.Sprint("lib", i), objs, unit, tt.errs, "row", tt.died)
					}
				})
			}
		}
	}
}

// judgeArm links objects, unit among them, and holds the errors and warnings
// of the library and of its stripped copy against errs, and a run against died.
func judgeArm(t *testing.T, dir, name string, objs []string, unit, errs, call string, died bool) {
	t.Helper()
	so := filepath.Join(dir, name+".so")
	armLink(t, so, objs...)
	stripped := filepath.Join(dir, name+"-stripped.so")
	command(t, "aarch64-linux-gnu-strip", "-o", stripped, so)
	l := &rule.Link{}
	for _, o := range objs {
		s := subject(t, o, rule.BaselineObject)
		s.Link = l
		if o == unit {
			s.Role, s.Unit = rule.ISAObject, &rule.Unit{Name: "hi", Entries: []string{"row_hi"}}
		}
		l.Objects = append(l.Objects, s)
	}
	for _, path := range []string{so, stripped} {
		s := subject(t, path, rule.Linked)
		s.Link = l
		got, err := checkLibrary(t.Context(), s, &rule.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, f := range got {
			if f.Severity == rule.Error || f.Severity == rule.Warning && errs == "" {
				ids = append(ids, f.ID)
			}
		}
		slices.Sort(ids)
		if v := strings.Join(slices.Compact(ids), " "); v != errs {
			t.Errorf("%s: got %q, want %q\n%s", filepath.Base(path), v, errs, explainAll(got))
		}
		if got, ok := cortex(t, path, call); ok && got != died {
			t.Errorf("%s: SIGILL on a %s: %v; the table says %v", filepath.Base(path), oldCPU, got, died)
		}
	}
}
