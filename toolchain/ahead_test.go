package toolchain

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// Whoever asks for an entry that is being made waits for the one making of it,
// and learns of its failure; Close ends what nobody waited for.
func TestEntryAhead(t *testing.T) {
	s, err := Open(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	start, times := make(chan struct{}), atomic.Int32{}
	fill := func(_ context.Context, dir string) error {
		times.Add(1)
		<-start
		return os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o644)
	}
	name, a := s.entryAhead("late-1", fill)
	_, b := s.entryAhead("late-1", fill)
	if a == nil || a != b || s.has("late-1") {
		t.Fatal("it was not made ahead, or twice")
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := a.wait(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled wait: %v", err)
	}
	close(start)
	if err := a.wait(ctx); err != nil || times.Load() != 1 {
		t.Fatalf("%v, made %d times", err, times.Load())
	}
	if _, err := os.Stat(s.Real(name + "/f")); err != nil {
		t.Error(err)
	}
	if _, m := s.entryAhead("late-1", fill); m != nil {
		t.Error("what is there is made again")
	}

	broken := errors.New("no such stub")
	_, m := s.entryAhead("late-2", func(context.Context, string) error { return broken })
	if err := m.wait(ctx); !errors.Is(err, broken) {
		t.Errorf("error %v, expected %v", err, broken)
	}
	if err := (&Kit{}).Linkable(ctx); err != nil {
		t.Error(err)
	}

	_, m = s.entryAhead("late-3", func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() })
	s.Close(ctx)
	if err := m.wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("after Close: %v", err)
	}
	if n := entries(t, s); n != 1 {
		t.Errorf("%d entries, expected the one that was made", n)
	}
}
