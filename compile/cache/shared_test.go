//go:build unix

package cache

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

// A group may share a cache: who may use it is for the umask to say.
func TestUmaskDecides(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	old := syscall.Umask(0)
	d, err := Open(t.Context(), dir)
	syscall.Umask(old)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for name, want := range map[string]os.FileMode{"lock": 0o666, "cas": 0o777, "ac": 0o777, "scratch": 0o777} {
		fi, err := os.Stat(filepath.Join(dir, name))
		if err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, expected %v", name, fi.Mode().Perm(), err, want)
		}
	}
}

// Open waits for a trim no longer than its context.
func TestOpenIsInterrupted(t *testing.T) {
	dir := t.TempDir()
	open(t, dir).Close()
	trim := flock.New(filepath.Join(dir, "lock"))
	if err := trim.Lock(); err != nil {
		t.Fatal(err)
	}
	defer trim.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, dir); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, expected the end of the context", err)
	}
}
