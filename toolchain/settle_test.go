package toolchain

import (
	"context"
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
	if _, err := os.Stat(filepath.Join(s.dir, "tmp", "tool-1")); !os.IsNotExist(err) {
		t.Errorf("a failed entry leaves its files: %v", err)
	}
}
