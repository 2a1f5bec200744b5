package tests

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/thox-ai/thoxbuild/compile/action/actiontest"
	"github.com/thox-ai/thoxbuild/compile/remote/remotetest"
)

// torchKernel is smallKernel with a binding that reads torch's headers.
func torchKernel() map[string]string {
	k := maps.Clone(smallKernel)
	k["torch-ext/torch_binding.cpp"] = `#include "registration.h"
#include <torch/library.h>
extern "C" int small_one(int);
static int64_t one(int64_t x) { TORCH_CHECK(x > 0, "positive"); return small_one(static_cast<int>(x)); }
TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) { ops.def("one(int x) -> int", &one); }
REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
`
	return k
}

// tree is every file below a folder.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		files[strings.TrimPrefix(p, dir)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestRemoteBuild builds a kernel here and on a real Remote Execution server,
// whose workers have no file of this machine. The bytes are the same, and a
// build with an empty cache of its own takes every result from the server's.
func TestRemoteBuild(t *testing.T) {
	casd := remotetest.Start(t, false)
	t.Run("same bytes", func(t *testing.T) { testRemoteBytes(t, casd) })
	t.Run("interrupt", func(t *testing.T) { testRemoteInterrupt(t, casd) })
}

func testRemoteBytes(t *testing.T, casd *remotetest.Casd) {
	here, there, again := newRealBuild(t, torchKernel()), newRealBuild(t, torchKernel()), newRealBuild(t, torchKernel())
	// Two machines: what each makes of its tools by itself has equal bytes, so the
	// actions with them are the same to the server.
	there.ownTools()
	again.ownTools()
	run := func(b *realBuild, code int, want string, more ...string) string {
		t.Helper()
		start := time.Now()
		got, out := b.run(b.args(more...))
		if got != code || !strings.Contains(out, want) {
			t.Fatalf("exit code %d, want %d and %q\n%s", got, code, want, out)
		}
		t.Logf("%q: %v", want, time.Since(start).Round(time.Millisecond))
		return out
	}
	run(here, 0, "\n7 actions ran")
	out := run(there, 0, "\n5 actions ran on the cluster, 0 came from its cache; here 0 ran, 2 were steps of thoxbuild itself", "--remote", casd.URL)
	if !strings.Contains(out, "s remote)\n") || !strings.Contains(out, "sending ") {
		t.Errorf("it does not say where actions run and what takes long:\n%s", out)
	}
	t.Setenv("THOXBUILD_REMOTE", casd.URL)
	run(again, 0, "\n0 actions ran on the cluster, 5 came from its cache; here 0 ran, 2 were steps of thoxbuild itself")
	want := tree(t, filepath.Join(here.kernel, "build"))
	for _, b := range []*realBuild{there, again} {
		got := tree(t, filepath.Join(b.kernel, "build"))
		for name := range want {
			if got[name] != want[name] {
				t.Errorf("%s: other bytes than here", name)
			}
		}
		if len(got) != len(want) || len(want) < 4 {
			t.Errorf("%d files, here %d", len(got), len(want))
		}
	}

	// What one machine compiles by itself for the cluster's cache, the next one
	// takes from there.
	for _, b := range []*realBuild{again, there} {
		b.write("two.cpp", "extern \"C\" int small_two(int x) { return x + 4; }\n")
	}
	run(again, 0, "\n0 actions ran on the cluster, 0 came from its cache; here 3 ran", "--remote-cache-only")
	run(there, 0, "\n0 actions ran on the cluster, 3 came from its cache; here 0 ran")
	if !maps.Equal(tree(t, filepath.Join(again.kernel, "build")), tree(t, filepath.Join(there.kernel, "build"))) {
		t.Error("what was compiled for the cache is not what came out of it")
	}

	// Nothing to do needs no server.
	run(again, 0, "\n0 actions ran on the cluster, 0 came from its cache", "--remote", "unix:///no/such/socket")

	// A command that fails there looks as if it had failed here.
	again.write("two.cpp", "int x = nothing;\n")
	zig, err := filepath.Glob(filepath.Join(again.store, "tools", "zig-0*", "zig"))
	if err != nil || len(zig) != 1 {
		t.Fatal(zig, err)
	}
	out = run(again, 1, "two.cpp:1:9: error: use of undeclared identifier 'nothing'")
	if !strings.Contains(out, "exit status 1") || !strings.Contains(out, zig[0]+" c++ ") || !strings.Contains(out, "waiting for it: "+realVariant) {
		t.Errorf("the command to paste, its exit status or who waits is not there:\n%s", out)
	}

	// A server that is not there is named, with what to do.
	again.write("two.cpp", "extern \"C\" int small_two(int x) { return x + 3; }\n")
	out = run(again, 1, "unix:///no/such/socket: ask for its capabilities: ", "--remote", "unix:///no/such/socket")
	if !strings.Contains(out, "hint: see whether the server runs") {
		t.Errorf("no hint:\n%s", out)
	}

	// With --remote "" the environment does not matter.
	run(again, 0, " of processor time", "--remote", "")
}

// testRemoteInterrupt interrupts a build while a compiler runs on the server.
// The build ends at once with 130, and so does the compiler.
func testRemoteInterrupt(t *testing.T, casd *remotetest.Casd) {
	k := torchKernel()
	name := fmt.Sprintf("binding%d.cpp", rand.Uint32()) // what tells its compiler from all others
	k["torch-ext/"+name] = k["torch-ext/torch_binding.cpp"]
	delete(k, "torch-ext/torch_binding.cpp")
	k["build.toml"] = strings.ReplaceAll(k["build.toml"], "torch_binding.cpp", name)
	b := newRealBuild(t, k)
	args := b.args("--remote", casd.URL)
	cmd := exec.Command(args[0], args[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wait := func(want bool, limit time.Duration) bool {
		for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if compiles(name) == want {
				return true
			}
		}
		return false
	}
	if !wait(true, time.Minute) {
		cmd.Process.Kill()
		cmd.Wait()
		t.Fatalf("nothing compiles %s\n%s", name, &out)
	}
	cmd.Process.Signal(syscall.SIGINT)
	start := time.Now()
	if code := cmdCode(cmd.Wait()); code != 130 {
		t.Errorf("exit code %d, want 130\n%s", code, &out)
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("it took %v to end", d)
	}
	if !wait(false, 10*time.Second) {
		t.Error("the compiler runs on")
	}
}

// compiles reports whether a process of this machine, in whatever sandbox, has
// that source in its arguments.
func compiles(source string) bool {
	return actiontest.Running(func(c string) bool { return strings.Contains(c, "torch-ext/"+source) && strings.Contains(c, "clang") })
}
