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
)

// memory is a Sink and a source of inputs.
type memory map[action.Digest][]byte

func (m memory) PutFile(_ context.Context, path string) (action.Digest, error) {
	b, err := os.ReadFile(path)
	d := action.DigestOf(b)
	m[d] = b
	return d, err
}

func (m memory) Put(context.Context, action.Digest, io.Reader) error { return errors.ErrUnsupported }

func (m memory) add(text string) action.Digest {
	d := action.DigestOf([]byte(text))
	m[d] = []byte(text)
	return d
}

func (m memory) open(d action.Digest) (io.ReadCloser, error) {
	b, ok := m[d]
	if !ok {
		return nil, fmt.Errorf("no blob %s", d)
	}
	return io.NopCloser(strings.NewReader(string(b))), nil
}

// shell makes an action of a shell script.
func shell(script string, outputs ...string) *action.Spec {
	return &action.Spec{Label: "test", Args: []string{"/bin/sh", "-c", script}, Env: map[string]string{"PATH": "/usr/bin:/bin"}, Outputs: outputs}
}

func run(t *testing.T, e *Executor, m memory, s *action.Spec, change func(*action.Request)) (*action.Result, error) {
	t.Helper()
	enc, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	req := &action.Request{Spec: s, Encoded: enc, Open: m.open}
	if change != nil {
		change(req)
	}
	return e.Run(t.Context(), req, m)
}

func TestSeesItsInputsOnly(t *testing.T) {
	t.Setenv("SECRET", "leak")
	e, m := &Executor{Scratch: t.TempDir()}, memory{}
	s := shell(`find . -type f | sort > out/list; cat a/in.txt >> out/list; env | grep -c SECRET >> out/list; stat -c %Y a/in.txt >> out/list; cd "$TMPDIR" && touch x`, "out/list")
	s.Inputs = []action.File{{Path: "a/in.txt", Digest: m.add("hello\n")}}
	res, err := run(t, e, m, s, nil)
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%+v %v", res, err)
	}
	want := fmt.Sprintf("./a/in.txt\n./out/list\nhello\n0\n%d\n", stageTime.Unix())
	if got := string(m[res.Outputs[0].Digest]); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if left, _ := os.ReadDir(e.Scratch); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

func TestFailureIsAResult(t *testing.T) {
	e, m := &Executor{Scratch: t.TempDir()}, memory{}
	res, err := run(t, e, m, shell(`echo one; echo two >&2; pwd; exit 3`, "o"), nil)
	if err != nil || res.ExitCode != 3 || !strings.HasPrefix(string(res.Log), "one\ntwo\n") {
		t.Errorf("%+v %v", res, err)
	}
	res, err = run(t, e, m, shell(`kill -SEGV $$`, "o"), nil)
	if err != nil || res.ExitCode != 128+int(syscall.SIGSEGV) {
		t.Errorf("%+v %v", res, err)
	}
}

func TestOutputs(t *testing.T) {
	for script, want := range map[string]string{
		"true":                    "did not write it",
		"mkdir -p o":              "regular file",
		"ln -s /etc/passwd o":     "regular file",
		"mkfifo o 2>/dev/null; :": "regular file",
	} {
		if _, err := run(t, &Executor{Scratch: t.TempDir()}, memory{}, shell(script, "o"), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", script, err, want)
		}
	}
	m := memory{}
	res, err := run(t, &Executor{Scratch: t.TempDir()}, m, shell("echo x > o; chmod +x o", "o"), nil)
	if err != nil || !res.Outputs[0].Exec {
		t.Errorf("%+v %v", res, err)
	}
}

// A source that is edited while the build runs must not end up under the key
// of its old text.
func TestChangedInput(t *testing.T) {
	m := memory{}
	s := shell("cat in > o", "o")
	d := m.add("old")
	m[d] = []byte("new")
	s.Inputs = []action.File{{Path: "in", Digest: d}}
	if _, err := run(t, &Executor{Scratch: t.TempDir()}, m, s, nil); err == nil || !strings.Contains(err.Error(), "changed while the build was running") {
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
	e, m := &Executor{Scratch: t.TempDir()}, memory{}
	_, err := run(t, e, m, shell(fmt.Sprintf(script, "wait"), "o"), func(r *action.Request) { r.Timeout = 200 * time.Millisecond })
	if !errors.Is(err, action.ErrTimeout) {
		t.Errorf("timeout: %v", err)
	}
	check("timeout")

	s := shell(fmt.Sprintf(script, "wait"), "o")
	enc, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	if _, err := e.Run(ctx, &action.Request{Spec: s, Encoded: enc, Open: m.open}, m); !errors.Is(err, context.Canceled) {
		t.Errorf("cancel: %v", err)
	}
	check("cancel")

	if res, err := run(t, e, m, shell(fmt.Sprintf(script, "echo done > o"), "o"), nil); err != nil || res.ExitCode != 0 {
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
	if _, err := run(t, &Executor{Scratch: t.TempDir()}, memory{}, s, nil); err == nil || !strings.Contains(err.Error(), "/no/such/compiler") {
		t.Errorf("%v", err)
	}
}
