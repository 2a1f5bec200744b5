package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/thox-ai/thoxbuild/compile/action"
	"github.com/thox-ai/thoxbuild/compile/action/actiontest"
)

var shell = actiontest.Shell

func run(t *testing.T, e *Executor, m *actiontest.Memory, s *action.Spec) (*action.Result, error) {
	t.Helper()
	return e.Run(t.Context(), m.Request(t, s), m)
}

func TestConformance(t *testing.T) {
	actiontest.Run(t, &Executor{Scratch: t.TempDir()})
}

func TestSeesItsInputsOnly(t *testing.T) {
	t.Setenv("SECRET", "leak")
	e, m := &Executor{Scratch: t.TempDir()}, &actiontest.Memory{}
	s := shell(`: > out/list; find . -type f | sort >> out/list; cat a/in.txt >> out/list; env | grep -c SECRET >> out/list; stat -c %Y a/in.txt >> out/list; cd "$TMPDIR" && touch x`, "out/list")
	s.Inputs = []action.File{{Path: "a/in.txt", Digest: m.Add("hello\n")}}
	res, err := run(t, e, m, s)
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%+v %v", res, err)
	}
	want := fmt.Sprintf("./a/in.txt\n./out/list\nhello\n0\n%d\n", stageTime.Unix())
	if got, _ := m.Get(res.Outputs[0].Digest); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if left, _ := os.ReadDir(e.Scratch); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// A fifo is no output either; a cluster does not say that there was one.
func TestFifoIsNoOutput(t *testing.T) {
	if _, err := run(t, &Executor{Scratch: t.TempDir()}, &actiontest.Memory{}, shell("mkfifo o", "o")); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("%v", err)
	}
}

// The group dies as a whole: on a timeout, on a cancel, and when the leader
// ends before its children.
func TestNoProcessIsLeft(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	script := fmt.Sprintf(`sleep 1000 & echo $! > %s; %%s`, pids)
	check := func(what string) {
		t.Helper()
		b, err := os.ReadFile(pids)
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil || strings.Contains(string(state), ") Z ") {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("%s: process %d is still there", what, pid)
		syscall.Kill(pid, syscall.SIGKILL)
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("needs /proc to look at processes")
	}
	e, m := &Executor{Scratch: t.TempDir()}, &actiontest.Memory{}
	req := m.Request(t, shell(fmt.Sprintf(script, "wait"), "o"))
	req.Timeout = 200 * time.Millisecond
	if _, err := e.Run(t.Context(), req, m); !errors.Is(err, action.ErrTimeout) {
		t.Errorf("timeout: %v", err)
	}
	check("timeout")

	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	if _, err := e.Run(ctx, m.Request(t, shell(fmt.Sprintf(script, "wait"), "o")), m); !errors.Is(err, context.Canceled) {
		t.Errorf("cancel: %v", err)
	}
	check("cancel")

	if res, err := run(t, e, m, shell(fmt.Sprintf(script, "echo done > o"), "o")); err != nil || res.ExitCode != 0 {
		t.Errorf("%+v %v", res, err)
	}
	check("leader ended first")
}

func TestLongOutputIsCut(t *testing.T) {
	l := &limited{max: 10}
	io.WriteString(l, "0123456")
	io.WriteString(l, "789abcdef")
	if got := string(l.Bytes()); got != "0123456789\n[6 more bytes of output]\n" {
		t.Errorf("%q", got)
	}
}

// Describe's line runs in a real shell and gives the words back.
func TestDescribeIsPasteable(t *testing.T) {
	e := &Executor{Resolve: func(s string) string { return strings.ReplaceAll(s, "/opt/thox/", "/real place/") }}
	words := []string{"/usr/bin/printf", `%s\n`, "plain", "two words", "it's", `a"b$c`, "", "-DX=\"y\"", "/opt/thox/x", "-ffile-prefix-map=/opt/thox/a=/opt/thox/a"}
	line := e.Describe(&action.Spec{Args: words, Env: map[string]string{"A": "1 2"}})
	out, err := exec.Command("/bin/sh", "-c", line).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	want := "plain\ntwo words\nit's\na\"b$c\n\n-DX=\"y\"\n/real place/x\n-ffile-prefix-map=/real place/a=/opt/thox/a\n"
	if string(out) != want {
		t.Errorf("got %q, want %q", out, want)
	}
	if !strings.HasPrefix(line, "env -i 'A=1 2' ") {
		t.Errorf("%s", line)
	}
}

func TestMissingProgram(t *testing.T) {
	s := shell("", "o")
	s.Args = []string{"/no/such/compiler"}
	if _, err := run(t, &Executor{Scratch: t.TempDir()}, &actiontest.Memory{}, s); err == nil || !strings.Contains(err.Error(), "/no/such/compiler") {
		t.Errorf("%v", err)
	}
}
