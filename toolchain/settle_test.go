package toolchain

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gofrs/flock"
)

// An entry that was not synced when the machine went down is made again; one
// whose maker was only killed stays, and is synced by the next process.
func TestUnsettledEntries(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	open := func(boot string) *Store {
		t.Helper()
		s, err := Open(Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close(context.Background()) })
		// Open has looked at the marks of this boot; now as if in another.
		s.bootID = func() string { return boot }
		if err := s.recover(); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if bootID() == "" {
		t.Skip("this system has no name for its boot: entries are synced at once")
	}
	made := 0
	get := func(s *Store) {
		t.Helper()
		if _, err := s.entry(ctx, "tool-1", func(d string) error {
			made++
			return os.WriteFile(filepath.Join(d, "f"), []byte("x"), 0o644)
		}); err != nil {
			t.Fatal(err)
		}
	}
	marks := func() int {
		found, _ := filepath.Glob(filepath.Join(dir, "unsettled", "*"))
		return len(found)
	}
	// leave is a process that dies between the entry's name and the sync.
	leave := func(boot string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "unsettled", "tool-1"), []byte(boot), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	s := open(bootID())
	get(s)
	s.Close(ctx)
	if made != 1 || marks() != 0 {
		t.Fatalf("made %d times, %d marks after Close", made, marks())
	}

	leave(bootID())
	s = open(bootID())
	get(s)
	s.Close(ctx)
	if made != 1 || marks() != 0 {
		t.Errorf("after a kill: made %d times, %d marks", made, marks())
	}

	// A maker that lives holds its mark, also one on another machine.
	leave("another machine's boot")
	held := flock.New(filepath.Join(dir, "unsettled", "tool-1"))
	if err := held.Lock(); err != nil {
		t.Fatal(err)
	}
	s = open(bootID())
	if !s.has("tool-1") || marks() != 1 {
		t.Error("the entry of a process that lives was taken away")
	}
	held.Unlock()

	leave("the boot before")
	s = open(bootID())
	if s.has("tool-1") || marks() != 0 {
		t.Error("what a power cut may have torn is still there")
	}
	get(s)
	s.Close(ctx)
	if made != 2 || marks() != 0 {
		t.Errorf("after a power cut: made %d times, %d marks", made, marks())
	}

	// Killed while it was being made, and never named.
	leave(bootID())
	if err := os.RemoveAll(filepath.Join(dir, "tools", "tool-1")); err != nil {
		t.Fatal(err)
	}
	if open(bootID()); marks() != 0 {
		t.Error("the mark of no entry stays")
	}

	// Where a boot has no name, nothing is marked.
	s = open("")
	get(s)
	if made != 3 || marks() != 0 {
		t.Errorf("without marks: made %d times, %d marks", made, marks())
	}
}

// An entry has its mark before it has its name, and a failed one leaves none.
func TestMarkComesFirst(t *testing.T) {
	s, err := Open(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	s.bootID = func() string { return "this boot" }
	ctx, cancel := context.WithCancel(context.Background())
	_, err = s.entry(ctx, "tool-1", func(string) error {
		if b, err := os.ReadFile(s.unsettled("tool-1")); err != nil || string(b) != "this boot" {
			t.Errorf("mark %q, %v", b, err)
		}
		cancel()
		return ctx.Err()
	})
	if err != context.Canceled {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(s.unsettled("tool-1")); !os.IsNotExist(err) {
		t.Errorf("a failed entry leaves its mark: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(s.dir, "tmp")); err != nil || len(left) > 0 {
		t.Errorf("a failed entry leaves its files: %v, %v", left, err)
	}
}

// A process that was killed leaves a half-made entry, and perhaps a compiler
// that goes on writing there. The next maker has a folder of its own; a prune
// removes what is left, but not what somebody is making.
func TestLeftBehind(t *testing.T) {
	s, err := Open(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	leave := func(name string) string {
		dir := filepath.Join(s.dir, "tmp", name)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "half"), []byte("1234567"), 0o644)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	there := func(dir string) bool { _, err := os.Stat(dir); return err == nil }

	stale := leave("tool-1.0.123")
	var ours string
	if _, err := s.entry(context.Background(), "tool-1.0", func(dir string) error {
		ours = dir
		return os.WriteFile(filepath.Join(dir, "whole"), nil, 0o644)
	}); err != nil {
		t.Fatal(err)
	}
	if ours == stale || there(stale) {
		t.Errorf("made in %s; what was left before is there: %v", ours, there(stale))
	}
	if _, err := os.Stat(s.Real(VirtualRoot + "/tool-1.0/half")); !os.IsNotExist(err) {
		t.Errorf("the entry holds what a killed process left: %v", err)
	}

	stale, pruned, busy := leave("tool-2.0.123"), leave("pruned-tool-3.0.456"), leave("tool-4.0.789")
	lock := flock.New(filepath.Join(s.dir, "locks", "tool-4.0"))
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	freed, err := s.Prune(func(string) bool { return true })
	if err != nil || freed != 14 || there(stale) || there(pruned) || !there(busy) {
		t.Errorf("freed %d bytes, %v; left: %v, %v, in use: %v", freed, err, there(stale), there(pruned), there(busy))
	}
}
