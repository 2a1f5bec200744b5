package compile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/thox-ai/thoxbuild/manifests"
)

const killDir = "THOXBUILD_TEST_KILL_DIR"

// TestChildBuild is the process that TestKilledBuilds kills.
func TestChildBuild(t *testing.T) {
	dir := os.Getenv(killDir)
	if dir == "" {
		t.Skip("runs as a child of TestKilledBuilds")
	}
	b := newBench(t, dir)
	b.opts.History = OpenHistory(b.cache.Dir(), b.kernel.Dir)
	b.mustRun(cpu213, cpu211, arm213)
	if err := b.opts.History.Save(); err != nil {
		t.Error(err)
	}
}

// A build that is killed at any moment leaves whole folders or none, and the
// next one ends with what an undisturbed build makes.
func TestKilledBuilds(t *testing.T) {
	clean := newBench(t, t.TempDir())
	start := time.Now()
	clean.mustRun(cpu213, cpu211, arm213)
	whole := time.Since(start)
	want := hashTree(t, clean.out)

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	killed := 0
	for i := range 6 {
		cmd := exec.Command(self, "-test.run=^TestChildBuild$")
		cmd.Env = append(os.Environ(), killDir+"="+dir)
		os.RemoveAll(filepath.Join(dir, "kernel"))
		if i == 3 {
			os.RemoveAll(out) // so that assembling is disturbed as well
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(whole * time.Duration(i+1) / 6)
		cmd.Process.Kill()
		if cmd.Wait() != nil {
			killed++
		}
		variants, err := os.ReadDir(out)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, v := range variants {
			if v.Name()[0] == '.' {
				continue // being put together; the loader looks at none of these
			}
			if _, err := manifests.VerifyVariant(context.Background(), filepath.Join(out, v.Name())); err != nil {
				t.Errorf("after kill %d: %v", i, err)
			}
		}
	}
	os.RemoveAll(filepath.Join(dir, "kernel"))
	newBench(t, dir).mustRun(cpu213, cpu211, arm213)
	if diff := cmp.Diff(want, hashTree(t, out)); diff != "" {
		t.Errorf("after %d kills:\n%s", killed, diff)
	}
}
