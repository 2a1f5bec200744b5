package compile

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thox-ai/thoxbuild/compile/action"
	"github.com/thox-ai/thoxbuild/compile/source"
	"github.com/thox-ai/thoxbuild/manifests"
)

// rewrite changes a file in place and sets the times back to what they were:
// only what no program can set back tells that it was changed.
func rewrite(t *testing.T, name string, change func([]byte) []byte) {
	t.Helper()
	fi, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, change(b), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name, fi.ModTime(), fi.ModTime()); err != nil {
		t.Fatal(err)
	}
}

func flipped(b []byte) []byte {
	b[len(b)/2] ^= 1
	return b
}

// One no-op follows the other at once, so that what is edited in between is
// edited within the ticks in which it was written and read.
func TestNoopNoticesWhatIsEdited(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.check = &checker{rules: "1"}
	dir := b.mustRun(cpu213).Variants[0].Dir
	library, err := filepath.Glob(filepath.Join(dir, "*.abi3.so"))
	if err != nil || len(library) != 1 {
		t.Fatal(library, err)
	}
	report := ReportFile(b.out, cpu213)
	whole, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		for what, spoil := range map[string]func(){
			"an edited library":  func() { rewrite(t, library[0], flipped) },
			"a shorter library":  func() { os.Truncate(library[0], 3) },
			"no library":         func() { os.Remove(library[0]) },
			"an edited metadata": func() { rewrite(t, filepath.Join(dir, "metadata.json"), flipped) },
			"another file in the library's place": func() {
				text, err := os.ReadFile(library[0])
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(library[0]+".new", flipped(text), 0o644); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(library[0]+".new", library[0]); err != nil {
					t.Fatal(err)
				}
			},
		} {
			spoil()
			if res := b.mustRun(cpu213); res.Variants[0].Cached || res.Counts.Ran != 0 {
				t.Errorf("round %d: %s is kept: %+v", round, what, res)
			}
			if _, err := manifests.VerifyVariant(context.Background(), dir); err != nil {
				t.Errorf("round %d: %s: %v", round, what, err)
			}
		}
		now := time.Now()
		os.Chtimes(library[0], now, now)
		if res := b.mustRun(cpu213); !res.Variants[0].Cached {
			t.Errorf("round %d: a touched library is written again", round)
		}
		for what, spoil := range map[string]func(){
			"an edited report": func() { rewrite(t, report, flipped) },
			"no report":        func() { os.Remove(report) },
		} {
			spoil()
			b.mustRun(cpu213)
			if got, err := os.ReadFile(report); err != nil || string(got) != string(whole) {
				t.Errorf("round %d: %s stays: %v", round, what, err)
			}
		}
		// A source of the same size with the old time: the name of the extension
		// follows from what was read of it.
		source := filepath.Join(b.kernel.Dir, "cpu", "base.cpp")
		before := b.mustRun(cpu213).Variants[0].Ops
		rewrite(t, source, func(text []byte) []byte {
			return []byte(strings.NewReplacer("2 * x", "3 * x", "3 * x", "2 * x").Replace(string(text)))
		})
		if after := b.mustRun(cpu213).Variants[0].Ops; after == before {
			t.Errorf("round %d: an edit of a source goes unseen", round)
		}
		os.Chtimes(source, time.Now(), time.Now())
		if res := b.mustRun(cpu213); res.Counts.Ran != 0 || !res.Variants[0].Cached {
			t.Errorf("round %d: a touched source builds again: %+v", round, res)
		}
		// The edit has made another library and another report.
		if library, err = filepath.Glob(filepath.Join(dir, "*.abi3.so")); err != nil || len(library) != 1 {
			t.Fatal(library, err)
		}
		if whole, err = os.ReadFile(report); err != nil {
			t.Fatal(err)
		}
	}
}

// A build remembers what it wrote: the next one trusts the file's times and
// reads no library.
func TestBuildRemembersItsLibraries(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.mustRun(cpu213)
	time.Sleep(100 * time.Millisecond)
	b.mustRun(cpu213) // whatever was too young before is not any more
	dir := filepath.Join(b.out, cpu213)
	library, err := filepath.Glob(filepath.Join(dir, "*.abi3.so"))
	if err != nil || len(library) != 1 {
		t.Fatal(library, err)
	}
	fi, err := os.Stat(library[0])
	if err != nil {
		t.Fatal(err)
	}
	// If the index says that the very same file holds other bytes, the folder
	// is made again: nobody looked at the bytes.
	x := source.OpenIndex(b.index)
	wrong := action.DigestOf([]byte("wrong"))
	wrong.Size = fi.Size()
	x.Wrote(library[0], fi, fi.ModTime().Add(time.Hour), wrong)
	if err := x.Save(); err != nil {
		t.Fatal(err)
	}
	if res := b.mustRun(cpu213); res.Variants[0].Cached {
		t.Error("the library was read although its times had not changed")
	}
	if res := b.mustRun(cpu213); !res.Variants[0].Cached {
		t.Error("a good folder was made again")
	}
}

// A history that is damaged or of an older release does no harm, and where
// there is nothing to remember it is not even read.
func TestHistoryFile(t *testing.T) {
	b := newBench(t, t.TempDir())
	build := func(variants ...string) *History {
		t.Helper()
		h := OpenHistory(b.cache.Dir(), b.kernel.Dir)
		b.opts.History = h
		b.mustRun(variants...)
		if err := h.Save(); err != nil {
			t.Fatal(err)
		}
		return h
	}
	file := build(cpu213, cpu211).path
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if h := build(cpu213, cpu211); h.loaded {
		t.Error("a build with nothing to do reads the whole history")
	}
	if h := build(cpu213); !h.loaded {
		t.Error("another choice of variants may have something to remember")
	}
	if h := build(cpu213); h.loaded {
		t.Error("the choice is not remembered")
	}
	if h := build(cpu213, cpu211); h.loaded {
		t.Error("the first choice is forgotten")
	}
	parts := OpenHistory(b.cache.Dir(), b.kernel.Dir).Parts(cpu213)
	if len(parts) == 0 {
		t.Fatal("no parts")
	}
	// Without its first line it is a file of an older release.
	_, old, _ := strings.Cut(string(good), "\n")
	if err := os.WriteFile(file, []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := build(cpu213, cpu211).Parts(cpu213); !slices.Equal(got, parts) {
		t.Errorf("from an old file: %v, want %v", got, parts)
	}
	if now, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(now), `{"history":2,`) {
		t.Errorf("the file is not of the new form: %.40s %v", now, err)
	}
	for n := 0; n < len(good); n += 1 + n/3 {
		if err := os.WriteFile(file, good[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		OpenHistory(b.cache.Dir(), b.kernel.Dir).Costs()
		build(cpu213, cpu211)
	}
	b.opts.Rebuild = true
	if got := build(cpu213, cpu211).Parts(cpu213); len(got) != len(parts) {
		t.Errorf("after damage: %v, want the parts of %v", got, parts)
	}
}
