package isa

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A cxx is a compiler that the fixtures are built with.
type cxx struct {
	name string
	argv []string // up to the flags, C++ and C alike
	env  []string
	// ld links what it compiled.
	ld []string
}

// compilers finds g++, clang and zig's clang. The fixtures need g++ for its
// standard library; the others are left out where they are not installed.
var compilers = sync.OnceValue(func() []cxx {
	var all []cxx
	gxx, err := exec.LookPath("g++")
	if err != nil {
		return nil
	}
	all = append(all, cxx{name: "g++", argv: []string{gxx}, ld: []string{gxx}})
	for _, n := range []string{"clang++-19", "clang++"} {
		if p, err := exec.LookPath(n); err == nil {
			c := cxx{name: "clang", argv: []string{p}, ld: []string{p}}
			if lld, err := exec.LookPath("ld.lld-19"); err == nil {
				c.ld = append(c.ld, "--ld-path="+lld)
			}
			all = append(all, c)
			break
		}
	}
	if m, _ := filepath.Glob(wholeZig); len(m) > 0 {
		cache := filepath.Join(os.TempDir(), fmt.Sprintf("thoxbuild-zig-%d", os.Getuid()))
		all = append(all, cxx{
			name: "zig", argv: []string{m[len(m)-1], "c++", "-target", "x86_64-linux-gnu.2.28", "-fno-sanitize=undefined"},
			env: []string{"ZIG_GLOBAL_CACHE_DIR=" + cache, "ZIG_LOCAL_CACHE_DIR=" + cache},
			ld:  []string{gxx, "-fuse-ld=gold"},
		})
	}
	return all
})

// object compiles one file of testdata into dir and returns the path.
func (c *cxx) object(t testing.TB, dir, src string, flags ...string) string {
	t.Helper()
	key := strings.Join(append([]string{src}, flags...), " ")
	out := filepath.Join(dir, strings.NewReplacer("/", "_", " ", "", "=", "_", ".", "_", "-", "_").Replace(key)+".o")
	args := append([]string{}, c.argv[1:]...)
	args = append(args, "-c", "-fPIC", "-o", out, filepath.Join("testdata", src))
	c.run(t, c.argv[0], append(args, flags...)...)
	return out
}

// link makes a library of objects.
func (c *cxx) link(t testing.TB, out string, args ...string) {
	t.Helper()
	c.run(t, c.ld[0], append(append(append([]string{}, c.ld[1:]...), "-shared", "-o", out), args...)...)
}

func (c *cxx) run(t testing.TB, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), c.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// A call is a function of a library to run.
type call struct{ lib, fn string }

// onNehalem loads the libraries of calls on an emulated processor without AVX
// and returns what died of an illegal instruction; a whole library has the
// function name "dlopen". ok is false where qemu-user is not installed.
func onNehalem(t *testing.T, calls []call) (died map[call]bool, ok bool) {
	t.Helper()
	qemu, err := exec.LookPath("qemu-x86_64")
	if err != nil {
		t.Log("no qemu-x86_64: the verdicts were not compared with a run")
		return nil, false
	}
	probe := filepath.Join(t.TempDir(), "probe")
	command(t, "g++", "-x", "c++", "-fpermissive", "-w", "-Wl,--no-as-needed", "-o", probe, "testdata/src/probe.c", "-ldl", "-lgomp")
	args := []string{"-cpu", "Nehalem", probe}
	for _, c := range calls {
		args = append(args, c.lib, c.fn)
	}
	out, err := exec.CommandContext(t.Context(), qemu, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("the probe failed: %v\n%s", err, out)
	}
	died = map[call]bool{}
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		f := strings.Fields(s.Text())
		if len(f) < 3 {
			continue
		}
		switch f[2] {
		case "ok":
		case "SIGILL":
			died[call{f[0], f[1]}] = true
		default:
			t.Errorf("the probe: %s", s.Text())
		}
	}
	return died, true
}
