package tests

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/thox-ai/thoxbuild/compile/action/actiontest"
)

// TestSignals ends a build while a compiler hangs: whatever the signal, and
// also where nobody reads what it says any more, the command ends with the
// status of an interruption and nothing it started stays.
func TestSignals(t *testing.T) {
	send := func(sig syscall.Signal) func(*testing.T, *exec.Cmd, io.Closer) {
		return func(t *testing.T, cmd *exec.Cmd, _ io.Closer) {
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, tt := range []struct {
		name string
		end  func(*testing.T, *exec.Cmd, io.Closer)
	}{
		{"interrupt", send(syscall.SIGINT)},
		{"terminate", send(syscall.SIGTERM)},
		{"hang-up", send(syscall.SIGHUP)},
		// The next line that the build prints finds out.
		{"reader gone", func(_ *testing.T, _ *exec.Cmd, stderr io.Closer) { stderr.Close() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newRealBuild(t, smallKernel)
			asleep := fmt.Sprintf("sleep 6%d.%d", 1000+i, os.Getpid())
			ready := filepath.Join(t.TempDir(), "ready")
			// Nothing is compiled before the reader has gone.
			b.wrapZig(`case "$*" in
*one.cpp*) ` + asleep + ` & ` + asleep + `;;
*two.cpp*) while [ ! -e '` + ready + `' ]; do sleep 0.05; done;;
esac
exec "$REAL" "$@"`)
			args := b.args("-j", "3")
			cmd := exec.Command(args[0], args[1:]...)
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for start := time.Now(); !isRunning(asleep); time.Sleep(20 * time.Millisecond) {
				if time.Since(start) > time.Minute {
					cmd.Process.Kill()
					t.Fatal("the compiler was never started")
				}
			}
			tt.end(t, cmd, stderr)
			if err := os.WriteFile(ready, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			tooLong := time.AfterFunc(30*time.Second, func() { cmd.Process.Kill() })
			cmd.Wait()
			tooLong.Stop()
			if code := cmd.ProcessState.ExitCode(); code != 130 {
				t.Errorf("exit code %d, expected 130", code)
			}
			if isRunning(asleep) {
				t.Errorf("%q still runs", asleep)
			}
			if b.built() {
				t.Error("a variant is there")
			}
		})
	}
}

// isRunning reports whether a process of this machine has exactly this command.
func isRunning(command string) bool {
	return actiontest.Running(func(c string) bool { return c == command })
}

// TestClientHangsUp breaks connections while the Hub writes to them. Each write
// fails the way that also raises SIGPIPE, and the Hub goes on with the others.
func TestClientHangsUp(t *testing.T) {
	k := newKillRun(t)
	k.serve()
	k.must("publish", "--repo", killRepo, "--partial")
	get := fmt.Sprintf("GET /kernels/%s/resolve/v1/build/torch-cpu/weights.bin HTTP/1.1\r\nHost: %s\r\n\r\n", killRepo, k.addr)
	for range 5 {
		c, err := net.Dial("tcp", k.addr)
		if err != nil {
			t.Fatalf("the Hub is gone: %v\n%s", err, k.log)
		}
		// More than the socket's buffers hold.
		if _, err := io.WriteString(c, strings.Repeat(get, 16)); err != nil {
			t.Fatal(err)
		}
		status := make([]byte, 15)
		if _, err := io.ReadFull(c, status); err != nil || string(status) != "HTTP/1.1 200 OK" {
			t.Fatalf("%q, %v", status, err)
		}
		time.Sleep(50 * time.Millisecond) // the buffers fill
		// First the end of what the client says, then, with bytes unread, a
		// reset: the writer is told of a broken pipe.
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
		c.Close()
	}
	time.Sleep(100 * time.Millisecond)
	select {
	case <-k.hub.done:
		t.Fatalf("the Hub ended: %v\n%s", k.hub.cmd.ProcessState, k.log)
	default:
	}
	k.must("verify", "--lock", k.lock())
}
