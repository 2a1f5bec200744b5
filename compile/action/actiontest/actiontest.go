// Package actiontest tests implementations of action.Executor: what a build may
// rely on is the same wherever its actions run.
package actiontest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// Run tests an executor that finds /bin/sh and the common programs, and whose
// processes this machine can see in /proc.
func Run(t *testing.T, e action.Executor) {
	for name, test := range map[string]func(*testing.T, action.Executor){
		"Inputs": testInputs, "Environment": testEnvironment, "Outputs": testOutputs, "Large": testLarge,
		"FailureIsAResult": testFailure, "BadOutputs": testBadOutputs, "ChangedInput": testChangedInput,
		"LongLog": testLongLog, "Timeout": testTimeout, "Cancel": testCancel, "Many": testMany,
		"NoCache": testNoCache,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, e)
		})
	}
}

// run runs an action that has to come to its end.
func run(t *testing.T, e action.Executor, m *Memory, s *action.Spec) *action.Result {
	t.Helper()
	res, err := e.Run(t.Context(), m.Request(t, s), m)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// output is the text of an output.
func output(t *testing.T, m *Memory, res *action.Result, path string) string {
	t.Helper()
	o, ok := res.Output(path)
	if !ok || res.ExitCode != 0 {
		t.Fatalf("no output %s: exit code %d, %s", path, res.ExitCode, res.Log)
	}
	text, ok := m.Get(o.Digest)
	if !ok {
		t.Fatalf("output %s was not stored", path)
	}
	return text
}

// An action sees its inputs where they belong, with their mode, and nothing of
// the folder that it was started from.
func testInputs(t *testing.T, e action.Executor) {
	m := &Memory{}
	s := Shell(`cat a/in.txt a-b/in.txt "a/ö x.txt" && test ! -s empty && ./bin/tool && test ! -x a/in.txt && test ! -e go.mod && ls -A a && echo done > out/list`, "out/list")
	s.Args[2] = "(" + s.Args[2] + ") > out/log && cat out/log >> out/list"
	s.Inputs = []action.File{
		{Path: "a/in.txt", Digest: m.Add("one\n")},
		{Path: "a-b/in.txt", Digest: m.Add("two\n")},
		{Path: "a/ö x.txt", Digest: m.Add("three\n")},
		{Path: "empty", Digest: action.Empty},
		{Path: "bin/tool", Digest: m.Add("#!/bin/sh\necho tool\n"), Exec: true},
	}
	m.Add("")
	res := run(t, e, m, s)
	if got, want := output(t, m, res, "out/list"), "done\none\ntwo\nthree\ntool\nin.txt\nö x.txt\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The environment is what the action asks for: nothing of this process.
func testEnvironment(t *testing.T, e action.Executor) {
	os.Setenv("THOXBUILD_ACTIONTEST", "leak") // not t.Setenv: tests run beside this one
	m := &Memory{}
	s := Shell(`env > o; test -d "$TMPDIR" && : > "$TMPDIR/x" && test -d "$HOME"`, "o")
	s.Env["WITH"] = "two words = it's\t'\""
	got := output(t, m, run(t, e, m, s), "o")
	if strings.Contains(got, "leak") || !strings.Contains(got, "WITH=two words = it's\t'\"\n") {
		t.Errorf("environment:\n%s", got)
	}
}

func testOutputs(t *testing.T, e action.Executor) {
	m := &Memory{}
	res := run(t, e, m, Shell(`echo x > z/deep/er; echo x > same; : > empty; chmod +x same; echo no > undeclared`, "z/deep/er", "same", "empty"))
	if x, y := output(t, m, res, "z/deep/er"), output(t, m, res, "same"); x != "x\n" || y != x {
		t.Errorf("outputs %q and %q", x, y)
	}
	if s := output(t, m, res, "empty"); s != "" {
		t.Errorf("empty output holds %q", s)
	}
	var paths []string
	for _, o := range res.Outputs {
		paths = append(paths, o.Path)
		if want := o.Path == "same"; o.Exec != want {
			t.Errorf("%s: executable %v", o.Path, o.Exec)
		}
	}
	if got := strings.Join(paths, " "); got != "z/deep/er same empty" {
		t.Errorf("outputs %s: not those of the action in its order", got)
	}
}

// Inputs and outputs that no single message holds.
func testLarge(t *testing.T, e action.Executor) {
	m := &Memory{}
	big := bytes.Repeat([]byte("0123456789abcde\n"), 700_000) // 11 MB
	rand.Shuffle(1000, func(i, j int) { big[i], big[j] = big[j], big[i] })
	s := Shell("cat big small > o", "o")
	s.Inputs = []action.File{{Path: "big", Digest: m.Add(string(big))}, {Path: "small", Digest: m.Add("end")}}
	if got := output(t, m, run(t, e, m, s), "o"); got != string(big)+"end" {
		t.Errorf("%d bytes came back, expected %d", len(got), len(big)+3)
	}
}

// A command that failed is no error: people want to see what it said.
func testFailure(t *testing.T, e action.Executor) {
	m := &Memory{}
	res := run(t, e, m, Shell(`echo one; echo two >&2; : > o; exit 3`, "o"))
	if res.ExitCode != 3 || string(res.Log) != "one\ntwo\n" || res.Cached {
		t.Errorf("%+v: %q", res, res.Log)
	}
	if res = run(t, e, m, Shell(`exit 3`, "o")); res.ExitCode != 3 || len(res.Log) != 0 {
		t.Errorf("%+v: %q", res, res.Log)
	}
	if res = run(t, e, m, Shell(`kill -SEGV $$`, "o")); res.ExitCode != 128+int(syscall.SIGSEGV) {
		t.Errorf("%+v", res)
	}
	// It is run again, and not remembered.
	if res = run(t, e, m, Shell(`exit 3`, "o")); res.ExitCode != 3 || res.Cached {
		t.Errorf("%+v", res)
	}
	s := Shell("", "o")
	s.Args = []string{"/no/such/program"}
	if res, err := e.Run(t.Context(), m.Request(t, s), m); err == nil && res.ExitCode == 0 {
		t.Error("a program that is not there succeeded")
	}
}

func testBadOutputs(t *testing.T, e action.Executor) {
	for script, want := range map[string]string{
		"true":                "did not write it",
		"mkdir -p o/p":        "regular file",
		"ln -s /etc/passwd o": "file",
	} {
		m := &Memory{}
		res, err := e.Run(t.Context(), m.Request(t, Shell(script, "o")), m)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %q", script, res, err, want)
		}
	}
}

// A source that is edited while the build runs must not end up under the key of
// its old text.
func testChangedInput(t *testing.T, e action.Executor) {
	for _, size := range []int{10, 9 << 20} {
		m := &Memory{}
		old := fmt.Sprintf("%0*d", size, rand.Uint64()) // nobody has seen it before
		s := Shell("cat in > o", "o")
		s.Inputs = []action.File{{Path: "in", Digest: action.DigestOf([]byte(old))}}
		m.Set(s.Inputs[0].Digest, strings.Repeat("x", size))
		if _, err := e.Run(t.Context(), m.Request(t, s), m); err == nil || !strings.Contains(err.Error(), "changed while the build was running") {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func testLongLog(t *testing.T, e action.Executor) {
	m := &Memory{}
	res := run(t, e, m, Shell(`i=0; while [ $i -lt 5200 ]; do echo "$i 12345"; i=$((i+1)); done > l; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do cat l l l l; done; exit 1`, "o"))
	if n := len(res.Log); n < 4<<20 || n > 4<<20+100 || !bytes.Contains(res.Log[4<<20:], []byte(" more bytes of output")) || !bytes.HasPrefix(res.Log, []byte("0 12345\n1 ")) {
		t.Errorf("%d bytes of output, ending in %q", n, res.Log[max(0, n-100):])
	}
}

// sleeper is a command that sleeps, and what finds it among all processes.
func sleeper() (script, find string) {
	find = fmt.Sprintf("987654.%d", rand.Uint64()>>8)
	return fmt.Sprintf(`sleep %s & wait`, find), find
}

// gone fails while a process with that text in its arguments is there.
func gone(t *testing.T, find string) {
	t.Helper()
	for range 200 {
		if !alive(find) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("sleep %s is still there", find)
}

func alive(find string) bool {
	return Running(func(command string) bool { return strings.Contains(command, "sleep "+find) })
}

// Running reports whether any process of this machine, in whatever sandbox, has
// a command that matches: its arguments with a space between two.
func Running(match func(command string) bool) bool {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range all {
		b, err := os.ReadFile(name)
		if err == nil && match(strings.TrimRight(strings.ReplaceAll(string(b), "\x00", " "), " ")) {
			return true
		}
	}
	return false
}

func testTimeout(t *testing.T, e action.Executor) {
	m := &Memory{}
	script, find := sleeper()
	req := m.Request(t, Shell(script, "o"))
	req.Timeout = 300 * time.Millisecond
	if _, err := e.Run(t.Context(), req, m); !errors.Is(err, action.ErrTimeout) || errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	gone(t, find)
}

func testCancel(t *testing.T, e action.Executor) {
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		t.Skip("needs /proc to look at processes")
	}
	m := &Memory{}
	script, find := sleeper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for !alive(find) && ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond)
		}
		cancel()
	}()
	if _, err := e.Run(ctx, m.Request(t, Shell(script, "o")), m); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	gone(t, find)
	if res, err := e.Run(ctx, m.Request(t, Shell(": > o", "o")), m); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %+v, %v", res, err)
	}
}

// Actions beside each other do not meet, and each says when it begins.
func testMany(t *testing.T, e action.Executor) {
	m := &Memory{}
	shared := m.Add(strings.Repeat("shared ", 1000))
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			s := Shell(fmt.Sprintf("wc -c < in > o; echo %d >> o", i), "o")
			s.Inputs = []action.File{{Path: "in", Digest: shared}}
			req := m.Request(t, s)
			var started atomic.Int32
			var where atomic.Value
			req.Started = func(at string) { started.Add(1); where.Store(at) }
			req.NoCache = true
			res, err := e.Run(t.Context(), req, m)
			if err != nil {
				t.Error(err)
				return
			}
			o, _ := res.Output("o")
			if got, _ := m.Get(o.Digest); got != fmt.Sprintf("7000\n%d\n", i) {
				t.Errorf("action %d: %q", i, got)
			}
			if n := started.Load(); n > 1 || n == 1 && where.Load() != res.Where {
				t.Errorf("action %d: started %d times at %q, ended at %q", i, n, where.Load(), res.Where)
			}
			if res.Wall < 0 || res.Wall > time.Minute {
				t.Errorf("action %d took %v", i, res.Wall)
			}
		})
	}
	wg.Wait()
}

// An executor with a cache of its own leaves it out where it is told to.
func testNoCache(t *testing.T, e action.Executor) {
	m := &Memory{}
	req := m.Request(t, Shell("cat /proc/sys/kernel/random/uuid > o", "o"))
	req.NoCache = true
	seen := map[string]bool{}
	for range 2 {
		res, err := e.Run(t.Context(), req, m)
		if err != nil {
			t.Fatal(err)
		}
		if res.Cached {
			t.Error("cached")
		}
		seen[output(t, m, res, "o")] = true
	}
	if len(seen) != 2 {
		t.Error("the second run took the result of the first")
	}
}
