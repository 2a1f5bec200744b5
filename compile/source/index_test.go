package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// indexBench is an index on disk and a file that it is asked about.
type indexBench struct {
	*testing.T
	file, saved string
	later       time.Duration // how far the index's clock is ahead
}

func newIndexBench(t *testing.T) *indexBench {
	dir := t.TempDir()
	return &indexBench{T: t, file: filepath.Join(dir, "a b\".cpp"), saved: filepath.Join(dir, "index", "i"), later: time.Minute}
}

func (b *indexBench) write(text string, at time.Time) {
	b.Helper()
	if err := os.WriteFile(b.file, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
	if err := os.Chtimes(b.file, at, at); err != nil {
		b.Fatal(err)
	}
}

// open is the index as the next command sees it.
func (b *indexBench) open() *Index {
	x := OpenIndex(b.saved)
	x.now = func() time.Time { return time.Now().Add(b.later) } // change times are now
	return x
}

func (b *indexBench) digest(x *Index) action.Digest {
	b.Helper()
	d, _, err := x.Scan(b.file)
	if err != nil {
		b.Fatal(err)
	}
	return d
}

// run asks for the file in a command of its own.
func (b *indexBench) run() action.Digest {
	b.Helper()
	x := b.open()
	d := b.digest(x)
	if err := x.Save(); err != nil {
		b.Fatal(err)
	}
	return d
}

// poison changes a digest in the saved index, so that what is remembered
// differs from what is read.
func (b *indexBench) poison(d action.Digest) action.Digest {
	b.Helper()
	text, err := os.ReadFile(b.saved)
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n")
	wrong := action.Digest{Hash: action.DigestOf([]byte("remembered")).Hash, Size: d.Size}
	if !strings.Contains(rest, d.String()) {
		b.Fatalf("%s is not remembered", d.Short())
	}
	rest = strings.ReplaceAll(rest, d.String(), wrong.String())
	text = []byte(indexHeader + action.DigestOf([]byte(rest)).String() + "\n" + rest)
	if err := os.WriteFile(b.saved, text, 0o644); err != nil {
		b.Fatal(err)
	}
	return wrong
}

func TestIndexRemembers(t *testing.T) {
	b := newIndexBench(t)
	b.write("#include \"x y\"", time.Now().Add(-time.Hour))
	d := b.run()
	wrong := b.poison(d)
	x := b.open()
	if got, scan, err := x.Scan(b.file); err != nil || got != wrong || len(scan.Includes) != 1 || scan.Includes[0].Path != "x y" {
		t.Errorf("read again: %v %v %v", got, scan, err)
	}
	if got, err := x.Digest(b.file); err != nil || got != wrong {
		t.Errorf("%v %v", got, err)
	}
}

// Whatever makes another file of a file is noticed, though it has the same size
// and the old modification time.
func TestIndexNotices(t *testing.T) {
	old := time.Now().Add(-time.Hour)
	for what, change := range map[string]func(b *indexBench){
		"an edit with the old time": func(b *indexBench) { b.write("two", old) },
		"a touch":                   func(b *indexBench) { b.write("one", time.Now()) },
		"another file in its place": func(b *indexBench) {
			to := b.file
			b.file += ".new"
			b.write("two", old)
			if err := os.Rename(b.file, to); err != nil {
				b.Fatal(err)
			}
			b.file = to
		},
	} {
		b := newIndexBench(t)
		b.write("one", old)
		b.poison(b.run())
		change(b)
		text, err := os.ReadFile(b.file)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.run(); got != action.DigestOf(text) {
			t.Errorf("%s goes unseen", what)
		}
		b.poison(action.DigestOf(text)) // and what was read is remembered
	}
}

// Edits that no time tells apart are never missed, because what is so young
// when it is read is not remembered: the clock stands still here, as between
// two writes within one tick.
func TestIndexRacy(t *testing.T) {
	b := newIndexBench(t)
	b.later = 0
	for i := range 200 {
		text := fmt.Sprintf("edit %03d", i)
		if err := os.WriteFile(b.file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := b.run(); got != action.DigestOf([]byte(text)) {
			t.Fatalf("%q goes unseen", text)
		}
	}
	for _, c := range []struct {
		ctime     time.Time
		age       time.Duration
		sameClock bool
		want      bool
	}{
		{time.Unix(1700000000, 123456789), 0, true, false},
		{time.Unix(1700000000, 123456789), time.Nanosecond, true, true}, // the clock has moved on by a tick
		{time.Unix(1700000000, 123456789), -time.Hour, true, false},
		{time.Unix(1700000000, 123456789), 2 * time.Second, false, false},
		{time.Unix(1700000000, 123456789), 4 * time.Second, false, true},
		{time.Unix(1700000000, 0), 2 * time.Second, true, false}, // whole seconds or milliseconds: rounded times
		{time.Unix(1700000000, 120e6), 2 * time.Second, true, false},
		{time.Unix(1700000000, 0), 4 * time.Second, true, true},
	} {
		e := indexed{CTime: c.ctime.UnixNano()}
		if got := e.settled(c.ctime.Add(c.age), c.sameClock); got != c.want {
			t.Errorf("changed at %v, read %v later, same clock %v: settled %v", c.ctime.UnixNano(), c.age, c.sameClock, got)
		}
	}
}

// A file of the index that is damaged in any way is one that is not there, and
// the next build writes it again.
func TestIndexDamaged(t *testing.T) {
	b := newIndexBench(t)
	b.write("young", time.Now().Add(-time.Hour))
	d := b.run()
	good, err := os.ReadFile(b.saved)
	if err != nil {
		t.Fatal(err)
	}
	damaged := []string{"", "{", `{"version":2,"files":{"a":null}}`, indexHeader, strings.Replace(string(good), "index 3", "index 2", 1)}
	for n := range good {
		damaged = append(damaged, string(good[:n]))
		flipped := append([]byte(nil), good...)
		flipped[n] ^= 1
		damaged = append(damaged, string(flipped))
	}
	for _, text := range damaged {
		if err := os.WriteFile(b.saved, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := b.digest(b.open()); got != d {
			t.Fatalf("index %q spoils a digest", text)
		}
	}
	b.run()
	if again, err := os.ReadFile(b.saved); err != nil || string(again) != string(good) {
		t.Errorf("the index is not written again: %q %v", again, err)
	}
	// A line that does not parse hides no other one.
	rest := "nonsense\n\"/x\" {\n" + strings.SplitN(string(good), "\n", 2)[1]
	if err := os.WriteFile(b.saved, []byte(indexHeader+action.DigestOf([]byte(rest)).String()+"\n"+rest), 0o644); err != nil {
		t.Fatal(err)
	}
	b.poison(d)
	if got := b.digest(b.open()); got == d {
		t.Error("a good line behind a bad one is not read")
	}
}

// Saving drops what is gone and keeps what this command did not ask for.
func TestIndexSave(t *testing.T) {
	b := newIndexBench(t)
	first := b.file
	b.write("one", time.Now().Add(-time.Hour))
	one := b.run()
	b.file = filepath.Join(filepath.Dir(first), "second")
	b.write("two", time.Now().Add(-time.Hour))
	two := b.run()
	b.poison(one)
	b.poison(two)
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	b.file = filepath.Join(filepath.Dir(first), "third")
	b.write("three", time.Now().Add(-time.Hour))
	b.run()
	text, err := os.ReadFile(b.saved)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n != 3 { // the header and two files
		t.Errorf("%d lines in\n%s", n, text)
	}
	if _, err := b.open().Digest(first); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is gone: %v", err)
	}
	if _, err := b.open().Digest(filepath.Dir(first)); err == nil {
		t.Error("a folder has a digest")
	}
}

// What a build wrote is remembered where a later change would show.
func TestIndexWrote(t *testing.T) {
	b := newIndexBench(t)
	b.write("lib", time.Now())
	fi, err := os.Stat(b.file)
	if err != nil {
		t.Fatal(err)
	}
	wrong := action.Digest{Hash: action.DigestOf([]byte("remembered")).Hash, Size: 3}
	wrote := func(published time.Time, d action.Digest) action.Digest {
		t.Helper()
		x := b.open()
		x.Wrote(b.file, fi, published, d)
		if err := x.Save(); err != nil {
			t.Fatal(err)
		}
		got, err := b.open().Digest(b.file)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if wrote(time.Unix(0, indexedStat(fi).CTime), wrong) == wrong {
		t.Error("a file that was published in the tick of its last write is remembered")
	}
	if wrote(fi.ModTime().Add(time.Minute), action.Digest{Hash: wrong.Hash, Size: 4}) == wrong {
		t.Error("a file of another size is remembered")
	}
	if wrote(fi.ModTime().Add(time.Minute), wrong) != wrong {
		t.Error("what was written is not remembered")
	}
	b.write("new", fi.ModTime())
	if got, err := b.open().Digest(b.file); err != nil || got != action.DigestOf([]byte("new")) {
		t.Errorf("an edit of what was written goes unseen: %v %v", got, err)
	}
}

func TestIndexMadeFrom(t *testing.T) {
	b := newIndexBench(t)
	b.write("report", time.Now().Add(-time.Hour))
	from, other := action.DigestOf([]byte("from")), action.DigestOf([]byte("other"))
	x := b.open()
	x.SetFrom(b.file, action.DigestOf([]byte("report")), from)
	if x.MadeFrom(b.file, from) {
		t.Error("a file that nobody read is known")
	}
	d := b.digest(x)
	x.SetFrom(b.file, other, from)
	if x.MadeFrom(b.file, from) {
		t.Error("the origin of other bytes is taken for that of the file")
	}
	x.SetFrom(b.file, d, from)
	if err := x.Save(); err != nil {
		t.Fatal(err)
	}
	if x = b.open(); !x.MadeFrom(b.file, from) || x.MadeFrom(b.file, other) {
		t.Error("the origin is not remembered")
	}
	b.write("REPORT", time.Now().Add(-time.Hour))
	if b.open().MadeFrom(b.file, from) {
		t.Error("an edit goes unseen")
	}
	os.Remove(b.file)
	if b.open().MadeFrom(b.file, from) {
		t.Error("a file that is gone is known")
	}
}
