package tests

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// namespace returns unshare's arguments for a process that may mount, or skips.
func namespace(t *testing.T) []string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("a small file system needs Linux")
	}
	args := mountNamespace(t)
	if args == nil {
		t.Skip("this user may not mount a file system, not even in a namespace of its own")
	}
	return args
}

// mountNamespace is namespace for a test that can do without: nil means no.
func mountNamespace(t *testing.T) []string {
	t.Helper()
	for _, args := range [][]string{{"-m"}, {"-r", "-m"}} {
		probe := append(append([]string{}, args...), "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", t.TempDir())
		if exec.Command("unshare", probe...).Run() == nil {
			return args
		}
	}
	return nil
}

// TestDiskFullHub fills the disk under a Hub in the middle of a publish. The
// publish fails and says why, nothing of it can be seen, and with more room
// the same command completes.
func TestDiskFullHub(t *testing.T) {
	ns := namespace(t)
	k := newKillRun(t)
	exe := k.command().Path
	script := fmt.Sprintf(`mkdir -p %[1]s && mount -t tmpfs -o size=1m tmpfs %[1]s || exit 9
%[2]s hub serve --quiet --dir %[1]s & pid=$!
read line; mount -o remount,size=64m %[1]s && echo more
read line; kill $pid; wait $pid; %[2]s hub fsck --dir %[1]s && echo sound`, k.store, exe)
	cmd := exec.Command("unshare", append(ns, "sh", "-c", script)...)
	cmd.Stderr = k.log
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	out := bufio.NewScanner(pipe)
	line := func() string {
		if !out.Scan() {
			t.Fatalf("the Hub said nothing: %v\n%s", out.Err(), k.log.String())
		}
		return out.Text()
	}
	k.addr = strings.TrimPrefix(line(), "http://")

	failed, err := k.command("publish", "--repo", killRepo, "--partial").CombinedOutput()
	if code := cmdCode(err); code != 1 {
		t.Fatalf("publish to a full disk: exit code %d, want 1\n%s", code, failed)
	}
	if !strings.Contains(string(failed), "disk is full") {
		t.Errorf("the message does not say that the disk is full:\n%s", failed)
	}
	if n := k.checkWhole(); n > 1 {
		t.Errorf("%d commits on v1 after a failed publish", n)
	}
	fmt.Fprintln(in)
	if got := line(); got != "more" {
		t.Fatal(got)
	}
	k.must("publish", "--repo", killRepo, "--partial")
	if n := k.checkWhole(); n != 2 {
		t.Errorf("%d commits on v1, want 2", n)
	}
	k.must("verify", "--lock", k.lock())
	fmt.Fprintln(in)
	if got := line(); got != "sound" {
		t.Error(got)
	}
}

// TestDiskFullPull fills the disk under a pull: no variant appears in part, and
// with more room the same command completes.
func TestDiskFullPull(t *testing.T) {
	ns := namespace(t)
	k := newKillRun(t)
	k.serve()
	k.must("publish", "--repo", killRepo, "--partial")
	cache := filepath.Join(k.dir, "cache")
	script := fmt.Sprintf(`mkdir -p %[1]s && mount -t tmpfs -o size=1m tmpfs %[1]s || exit 9
%[2]s pull --lock %[3]s --dir %[1]s; code=$?
[ $code = 1 ] || { echo "pull to a full disk: exit code $code" >&2; exit 8; }
for v in %[1]s/*/snapshots/*/build/*; do
	[ ! -d "$v" ] || %[2]s verify --lock %[3]s --cache %[1]s --variant "${v##*/}" || exit 7
done
mount -o remount,size=64m %[1]s
%[2]s pull --lock %[3]s --dir %[1]s && %[2]s verify --lock %[3]s --cache %[1]s`, cache, k.command().Path, k.lock())
	cmd := k.command()
	cmd.Path, cmd.Args = "/usr/bin/env", append(append([]string{"env", "unshare"}, ns...), "sh", "-c", script)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "no space left") {
		t.Errorf("%v\n%s", err, out)
	}
}

func cmdCode(err error) int {
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode()
	}
	return 0
}

// TestDiskFullLock fills the disk under the publisher's lock file. What was
// published stays, the message says what is missing, and with more room the
// same command writes the pin and sends nothing.
func TestDiskFullLock(t *testing.T) {
	ns := namespace(t)
	k := newKillRun(t)
	k.serve()
	script := fmt.Sprintf(`mkdir -p %[1]s && mount -t tmpfs -o size=64k tmpfs %[1]s || exit 9
dd if=/dev/zero of=%[1]s/full bs=4k 2>/dev/null
%[2]s publish --repo %[3]s --partial --lock %[1]s/thoxbuild.lock; code=$?
[ $code = 1 ] || { echo "a full disk under the lock: exit code $code" >&2; exit 8; }
[ ! -s %[1]s/thoxbuild.lock ] || exit 7
rm %[1]s/full
%[2]s publish --repo %[3]s --partial --lock %[1]s/thoxbuild.lock --output-json - || exit 6
%[2]s verify --lock %[1]s/thoxbuild.lock`, filepath.Join(k.dir, "locks"), k.command().Path, killRepo)
	cmd := k.command()
	cmd.Path, cmd.Args = "/usr/bin/env", append(append([]string{"env", "unshare"}, ns...), "sh", "-c", script)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "the lock file was not written") || !strings.Contains(string(out), `"status": "no_changes"`) {
		t.Errorf("%v\n%s", err, out)
	}
}
