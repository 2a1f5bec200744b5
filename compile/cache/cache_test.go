package cache

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/thox-ai/thoxbuild/compile/action"
)

var key = action.DigestOf([]byte("an action"))

func open(t *testing.T, dir string) *Disk {
	t.Helper()
	d, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// put stores a result with one output.
func put(t *testing.T, d *Disk, content string) *action.Result {
	t.Helper()
	file := filepath.Join(t.TempDir(), "out.o")
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	dg, err := d.PutFile(context.Background(), file)
	if err != nil {
		t.Fatal(err)
	}
	r := &action.Result{Outputs: []action.Output{{Path: "out.o", Digest: dg}}, Log: []byte("a warning"), Wall: time.Second, CPU: 2 * time.Second, MaxRSS: 1 << 20}
	if err := d.PutResult(key, r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRoundTrip(t *testing.T) {
	d := open(t, t.TempDir())
	if _, err := d.Result(key); !errors.Is(err, ErrMiss) {
		t.Errorf("an empty cache gives %v", err)
	}
	want := put(t, d, "object")
	want.Cached = true
	got, err := d.Result(key)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if b, err := d.ReadBlob(got.Outputs[0].Digest); err != nil || string(b) != "object" {
		t.Errorf("%q %v", b, err)
	}
	long := &action.Result{Log: bytes.Repeat([]byte("x"), maxInlineLog+1), Outputs: want.Outputs}
	if err := d.PutResult(key, long); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Result(key); err != nil || !bytes.Equal(got.Log, long.Log) {
		t.Errorf("long log: %v", err)
	}
}

// Every way in which an entry can be wrong is a miss that says what is wrong.
func TestMalformedEntriesAreMisses(t *testing.T) {
	for want, spoil := range map[string]func(d *Disk, entry, blob string) error{
		"no entry":       func(_ *Disk, e, _ string) error { return os.Remove(e) },
		"another format": func(_ *Disk, e, _ string) error { return rewrite(e, func(b []byte) []byte { return []byte("x") }) },
		"cut short": func(_ *Disk, e, _ string) error {
			return rewrite(e, func(b []byte) []byte { return b[:len(header)+3] })
		},
		"wrong checksum": func(_ *Disk, e, _ string) error { return rewrite(e, func(b []byte) []byte { return b[:len(b)-1] }) },
		"expected 64": func(_ *Disk, e, _ string) error {
			return rewrite(e, func(b []byte) []byte { return []byte(header + "xyz/3\nabc") })
		},
		"output out.o is gone": func(_ *Disk, _, b string) error { return os.Remove(b) },
		"output out.o is gone ": func(_ *Disk, _, b string) error {
			return rewrite(b, func([]byte) []byte { return []byte("longer than before") })
		},
		"leaves its folder": func(d *Disk, _, _ string) error {
			dg, err := d.PutBlob([]byte("x"))
			if err != nil {
				return err
			}
			return d.PutResult(key, &action.Result{Outputs: []action.Output{{Path: "../../x", Digest: dg}}})
		},
	} {
		d := open(t, t.TempDir())
		r := put(t, d, "object")
		if err := spoil(d, d.path("ac", key), d.path("cas", r.Outputs[0].Digest)); err != nil {
			t.Fatal(err)
		}
		_, err := d.Result(key)
		if !errors.Is(err, ErrMiss) || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("got %v, want a miss with %q", err, want)
		}
		put(t, d, "object")
		if _, err := d.Result(key); err != nil {
			t.Errorf("%q: not healed: %v", want, err)
		}
	}
}

func rewrite(path string, change func([]byte) []byte) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o644); err != nil {
		return err
	}
	return os.WriteFile(path, change(b), 0o644)
}

// A blob whose bytes have rotted has the right size; only its hash tells.
func TestRottenBlob(t *testing.T) {
	dir := t.TempDir()
	r := put(t, open(t, dir), "object")
	d := open(t, dir)
	dg := r.Outputs[0].Digest
	if err := rewrite(d.path("cas", dg), func([]byte) []byte { return []byte("objecT") }); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open(dg); !errors.Is(err, ErrMiss) {
		t.Errorf("a rotten blob reads as good: %v", err)
	}
	if d.Has(dg) {
		t.Error("the rotten blob is still there")
	}
}

func TestPutChecksTheDigest(t *testing.T) {
	d := open(t, t.TempDir())
	want := action.DigestOf([]byte("right"))
	for _, text := range []string{"wrong", "righ", "right and more"} {
		if err := d.Put(context.Background(), want, strings.NewReader(text)); err == nil || d.Has(want) {
			t.Errorf("%q was stored as %q", text, "right")
		}
	}
	if err := d.Put(context.Background(), want, strings.NewReader("right")); err != nil || !d.Has(want) {
		t.Error(err)
	}
}

// fullDisk fails after a number of bytes, as a disk does that fills up.
type fullDisk struct {
	w    io.Writer
	left *int
}

func (f fullDisk) Write(p []byte) (int, error) {
	n := min(len(p), *f.left)
	*f.left -= n
	if m, err := f.w.Write(p[:n]); err != nil {
		return m, err
	}
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

// Wherever the disk fills up, the error says so, no entry names anything that
// is not there, nothing is left behind, and the next try succeeds.
func TestFullDisk(t *testing.T) {
	for room := 0; room < 400; room += 7 {
		d := open(t, t.TempDir())
		left := room
		d.writer = func(w io.Writer) io.Writer { return fullDisk{w, &left} }
		file := filepath.Join(t.TempDir(), "out.o")
		if err := os.WriteFile(file, []byte("object"), 0o644); err != nil {
			t.Fatal(err)
		}
		dg, err := d.PutFile(context.Background(), file)
		if err == nil {
			err = d.PutResult(key, &action.Result{Outputs: []action.Output{{Path: "out.o", Digest: dg}}})
		}
		if err == nil {
			if room < 100 {
				t.Errorf("%d bytes were enough", room)
			}
			continue
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("with %d bytes: %v", room, err)
		}
		if _, err := d.Result(key); !errors.Is(err, ErrMiss) {
			t.Errorf("with %d bytes: an entry: %v", room, err)
		}
		if rest, _ := os.ReadDir(d.Scratch()); len(rest) != 0 {
			t.Errorf("with %d bytes: left %v", room, rest)
		}
		d.writer = func(w io.Writer) io.Writer { return w }
		put(t, d, "object")
		if _, err := d.Result(key); err != nil {
			t.Error(err)
		}
	}
}

func TestManyWriters(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 4 {
		d := open(t, dir)
		for range 4 {
			wg.Go(func() {
				for range 20 {
					dg, err := d.PutBlob([]byte("the same bytes"))
					if err != nil {
						t.Error(err)
						return
					}
					if err := d.PutResult(key, &action.Result{Outputs: []action.Output{{Path: "o", Digest: dg}}}); err != nil {
						t.Error(err)
					}
					if _, err := d.Result(key); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
}

// What a killed process left is swept up; what a living one has is not.
func TestScratch(t *testing.T) {
	dir := t.TempDir()
	alive := open(t, dir)
	dead := filepath.Join(dir, "scratch", "p1234")
	if err := os.Mkdir(dead, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dead+".lock", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-time.Hour)
	for _, l := range []string{dead + ".lock", alive.Scratch() + ".lock"} {
		if err := os.Chtimes(l, past, past); err != nil {
			t.Fatal(err)
		}
	}
	other := open(t, dir)
	if _, err := os.Stat(dead); err == nil {
		t.Error("the folder of a dead process is still there")
	}
	for _, d := range []*Disk{alive, other} {
		if _, err := os.Stat(d.Scratch()); err != nil {
			t.Error(err)
		}
	}
}

func TestTrim(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	old := put(t, d, "old")
	young, err := d.PutBlob([]byte("young"))
	if err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-48 * time.Hour)
	for _, p := range []string{d.path("ac", key), d.path("cas", old.Outputs[0].Digest)} {
		if err := os.Chtimes(p, past, past); err != nil {
			t.Fatal(err)
		}
	}
	other := open(t, dir)
	if _, err := d.Trim(24 * time.Hour); err == nil || !errors.Is(err, ErrInUse) {
		t.Errorf("trimmed under a build: %v", err)
	}
	other.Close()
	got, err := d.Trim(24 * time.Hour)
	if err != nil || got.Removed != 2 || got.Kept != 1 || got.KeptBytes != 5 {
		t.Errorf("%+v %v", got, err)
	}
	if d.Has(old.Outputs[0].Digest) || !d.Has(young) {
		t.Error("the wrong blobs went")
	}
	// A use makes an entry young again.
	put(t, d, "old")
	os.Chtimes(d.path("ac", key), past, past)
	if _, err := d.Result(key); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Trim(24 * time.Hour); err != nil || got.Removed != 0 {
		t.Errorf("%+v %v", got, err)
	}
}

func TestReadOnlyFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), filepath.Join(file, "cache")); err == nil || !strings.Contains(err.Error(), "--store") {
		t.Errorf("%v", err)
	}
}

// An entry of any bytes is a miss or a result that could have been stored.
func FuzzEntry(f *testing.F) {
	d, err := Open(f.Context(), f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	defer d.Close()
	dg, err := d.PutBlob([]byte("x"))
	if err != nil {
		f.Fatal(err)
	}
	if err := d.PutResult(key, &action.Result{Outputs: []action.Output{{Path: "a/b", Digest: dg}}, Log: []byte("l")}); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(d.path("ac", key))
	if err != nil {
		f.Fatal(err)
	}
	_, body, _ := bytes.Cut(good[len(header):], []byte("\n"))
	f.Add(body)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		entry := slices.Concat([]byte(header), []byte(action.DigestOf(body).String()), []byte("\n"), body)
		msg, err := decodeEntry(entry)
		if err != nil {
			return
		}
		r, err := d.resultFromProto(msg)
		if err != nil {
			return
		}
		for _, o := range r.Outputs {
			if !filepath.IsLocal(o.Path) {
				t.Errorf("output %q leaves its folder", o.Path)
			}
		}
		if r.Wall < 0 || r.CPU < 0 {
			t.Errorf("took %v, %v", r.Wall, r.CPU)
		}
	})
}
