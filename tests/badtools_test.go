package tests

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bigKernel is a kernel whose two objects hold 3 MB each.
var bigKernel = map[string]string{
	"build.toml": `[general]
name = "big"
version = 1
edition = 5
license = "apache-2.0"
backends = ["cpu"]
[torch]
src = ["torch-ext/torch_binding.cpp"]
[kernel.big]
backend = "cpu"
depends = ["torch"]
src = ["one.cpp", "two.cpp"]
`,
	"one.cpp":                   "extern \"C\" __attribute__((visibility(\"default\"), used)) const char big_one[3000000] = {1};\n",
	"two.cpp":                   "extern \"C\" __attribute__((visibility(\"default\"), used)) const char big_two[3000000] = {2};\n",
	"torch-ext/big/__init__.py": "from ._ops import ops\n",
	"torch-ext/torch_binding.cpp": `#include "registration.h"
extern "C" const char big_one[3000000];
extern "C" const char big_two[3000000];
volatile int big_sum, big_at;
__attribute__((constructor)) static void big_keep() { big_sum = big_one[big_at] + big_two[big_at]; }
REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
`,
}

// realBuild is a kernel with a store of its own, whose tools are those that an
// earlier build fetched.
type realBuild struct {
	t             *testing.T
	kernel, store string
}

const realVariant = "torch213-cxx11-cpu-x86_64-linux"

func newRealBuild(t *testing.T, files map[string]string) *realBuild {
	t.Helper()
	main := filepath.Join(repoRoot(t), ".cache", "store")
	if found, _ := filepath.Glob(filepath.Join(main, "tools", "torch-include-2.13.*-x86_64-*")); len(found) == 0 {
		t.Skip("no compilers in the tree yet: run make kernel once")
	}
	dir := t.TempDir()
	b := &realBuild{t: t, kernel: filepath.Join(dir, "kernel"), store: filepath.Join(dir, "store")}
	if err := linkStore(main, b.store); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		b.write(name, text)
	}
	return b
}

func (b *realBuild) write(name, text string) {
	b.t.Helper()
	file := filepath.Join(b.kernel, filepath.FromSlash(name))
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// args are a build command.
func (b *realBuild) args(more ...string) []string {
	b.t.Helper()
	exe, err := exec.LookPath("thoxbuild")
	if err != nil {
		b.t.Fatal(err)
	}
	return append([]string{exe, "-C", b.kernel, "--store", b.store, "--offline", "build", "--variant", realVariant}, more...)
}

// run returns the exit code and what was printed.
func (b *realBuild) run(args []string) (int, string) {
	b.t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Fatal(err)
	}
	return cmdCode(err), string(out)
}

func (b *realBuild) built() bool {
	_, err := os.Stat(filepath.Join(b.kernel, "build", realVariant))
	return !errors.Is(err, fs.ErrNotExist)
}

// wrapZig puts a script in front of the store's zig: $REAL runs the real one.
func (b *realBuild) wrapZig(script string) {
	b.t.Helper()
	for _, zig := range b.tools("zig-0*") {
		from, err := os.Readlink(zig)
		text := fmt.Sprintf("#!/bin/sh\nREAL='%s'\n%s\n", filepath.Join(from, "zig"), script)
		err = errors.Join(err, os.Remove(zig), os.Mkdir(zig, 0o755), os.WriteFile(filepath.Join(zig, "zig"), []byte(text), 0o755),
			os.Symlink(filepath.Join(from, "lib"), filepath.Join(zig, "lib")))
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

// tools are the entries of the store that a pattern names.
func (b *realBuild) tools(pattern string) []string {
	b.t.Helper()
	found, err := filepath.Glob(filepath.Join(b.store, "tools", pattern))
	if err != nil || len(found) == 0 {
		b.t.Fatalf("no %s in the store: %v", pattern, err)
	}
	return found
}

// TestBadCompiler lets the real compiler die, hang and write half a file. Each
// is named, no variant appears, nothing bad is kept in the cache, and with the
// compiler as it should be the same command succeeds.
func TestBadCompiler(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		args   []string
		want   []string
	}{
		"dies": {
			`case "$*" in *one.cpp*) printf half > out.o; kill -SEGV $$;; esac
exec "$REAL" "$@"`, nil,
			[]string{"compile one.cpp", "ended by signal 11", "command: env -i", "waiting for it: " + realVariant},
		},
		"hangs": {
			`case "$*" in *one.cpp*) sleep 600 & sleep 600;; esac
exec "$REAL" "$@"`, []string{"--timeout", "2s"},
			[]string{"compile one.cpp", "after 2s", "waiting for it: " + realVariant},
		},
		"writes half an object": {
			`"$REAL" "$@" || exit
case "$*" in *one.cpp*) truncate -s 1000000 out.o;; esac`, nil,
			[]string{realVariant, "one.cpp"},
		},
		"writes nothing": {
			`case "$*" in *one.cpp*) exit 0;; esac
exec "$REAL" "$@"`, nil,
			[]string{"compile one.cpp", "did not write it"},
		},
		"writes half a library": {
			`"$REAL" "$@" || exit
case "$*" in *ld.lld*-shared*) truncate -s 4000000 out.so;; esac`, nil,
			[]string{realVariant},
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			b := newRealBuild(t, bigKernel)
			b.wrapZig(tc.script)
			code, out := b.run(b.args(tc.args...))
			if code != 1 && code != 3 || b.built() {
				t.Errorf("exit code %d, a variant is there: %v\n%s", code, b.built(), out)
			}
			for _, w := range tc.want {
				if !strings.Contains(out, w) {
					t.Errorf("the message does not say %q:\n%s", w, out)
				}
			}
			// What a tool lied about is in the cache under its key, as with any
			// build system; --rebuild is the way out.
			b.wrapZigBack()
			if code, out := b.run(b.args("--rebuild")); code != 0 || !b.built() {
				t.Errorf("with a sound compiler: exit code %d\n%s", code, out)
			}
		})
	}
}

func (b *realBuild) wrapZigBack() {
	b.t.Helper()
	found, _ := filepath.Glob(filepath.Join(b.store, "tools", "zig-0*", "zig"))
	for _, f := range found {
		if err := os.WriteFile(f, []byte(fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\"\n", b.realZig(f))), 0o755); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *realBuild) realZig(wrapper string) string {
	lib, err := os.Readlink(filepath.Join(filepath.Dir(wrapper), "lib"))
	if err != nil {
		b.t.Fatal(err)
	}
	return filepath.Join(filepath.Dir(lib), "zig")
}

// TestDiskFullLink fills the disk of the cache while the linker writes: the
// objects fit, the library does not. The build says why and leaves no variant,
// and with more room the same command takes the objects and completes.
func TestDiskFullLink(t *testing.T) {
	ns := namespace(t)
	b := newRealBuild(t, bigKernel)
	cache := filepath.Join(b.store, "cache")
	build := "'" + strings.Join(b.args("-j", "1"), "' '") + "'"
	script := fmt.Sprintf(`mkdir -p %[1]s && mount -t tmpfs -o size=10m tmpfs %[1]s || exit 9
%[2]s; code=$?
[ $code = 1 ] || { echo "a build on a full disk: exit code $code" >&2; exit 8; }
[ ! -e %[3]s ] || { echo "a variant is there" >&2; exit 7; }
echo "--- more room" >&2
mount -o remount,size=64m %[1]s
%[2]s`, cache, build, filepath.Join(b.kernel, "build", realVariant))
	cmd := exec.Command("unshare", append(ns, "sh", "-c", script)...)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	err := cmd.Run()
	before, after, _ := strings.Cut(text.String(), "--- more room")
	if err != nil || !b.built() {
		t.Fatalf("%v\n%s", err, &text)
	}
	for _, want := range []string{"link " + realVariant, "compile two.cpp", "hint: free some space"} {
		if !strings.Contains(before, want) {
			t.Errorf("on the full disk, the build does not say %q:\n%s", want, before)
		}
	}
	if strings.Contains(after, "compile two.cpp") || !strings.Contains(after, "link "+realVariant) {
		t.Errorf("with more room, the build did not go on where it was:\n%s", after)
	}
}
