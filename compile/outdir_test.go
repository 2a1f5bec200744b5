package compile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/thox-ai/thoxbuild/compile/cache"
)

// TestLockOut: builds with stores of their own, one of which calls the folder
// by another name, are not in it at once.
func TestLockOut(t *testing.T) {
	dir := t.TempDir()
	out, link := filepath.Join(dir, "out [1]"), filepath.Join(dir, "link")
	if err := os.Symlink(out, link); err != nil {
		t.Fatal(err)
	}
	build := func(store, out string) *runner {
		c, err := cache.Open(t.Context(), filepath.Join(dir, store))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return &runner{p: &Plan{cfg: Config{OutDir: out}}, o: RunOptions{Cache: c}}
	}
	unlock, err := build("a", out).lockOut(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(out, tempPrefix+"1")
	if err := os.Mkdir(half, 0o755); err != nil {
		t.Fatal(err)
	}
	other := build("b", link)
	ctx, cancel := context.WithTimeout(t.Context(), 5*outPoll)
	defer cancel()
	if _, err := other.lockOut(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the other build: %v, expected it to wait", err)
	}
	if _, err := os.Stat(half); err != nil {
		t.Errorf("what the first build was writing: %v", err)
	}
	time.AfterFunc(outPoll, unlock)
	again, err := other.lockOut(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again()
	if _, err := os.Stat(half); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a killed build left: %v", err)
	}
}
