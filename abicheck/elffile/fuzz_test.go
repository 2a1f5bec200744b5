package elffile_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
	"github.com/thox-ai/thoxbuild/abicheck/elffile/elftest"
)

func sample() elftest.Library {
	return elftest.Library{
		Needed: []string{"libc.so.6", "libc10.so"}, Soname: "libx.so", Runpath: "$ORIGIN",
		Symbols: []elftest.Symbol{
			{Name: "malloc", Version: "GLIBC_2.2.5", Library: "libc.so.6"},
			{Name: "pthread_create", Version: "GLIBC_2.34", Library: "libc.so.6"},
			{Name: "_ZN3c105ErrorD1Ev"}, {Name: "PyInit_x", Defined: true},
		},
		Needs: []elftest.Need{{Library: "libc.so.6", Version: "GLIBC_ABI_DT_RELR"}},
		Data:  []byte("/home/me/src/x.cpp\x00"), BuildID: []byte{1, 2, 3, 4},
	}
}

// all calls every reader of a file and sums what they return, in bytes.
func all(t *testing.T, f *elffile.File) (size int) {
	f.Dynamic()
	f.Needs()
	f.Notes()
	f.Groups()
	f.DynRelocs(func(elffile.Reloc) {})
	f.Relr()
	if s, err := f.DynSymbols(); err == nil {
		size += len(s)
	}
	if s, err := f.Symbols(); err == nil {
		size += len(s)
	}
	sameStatic(t, f)
	for i := range f.Sections {
		if r, err := f.Reader(&f.Sections[i]); err == nil && i < 64 {
			n, _ := io.Copy(io.Discard, io.LimitReader(r, 4096))
			size += int(n)
		}
	}
	return size
}

// counter counts the bytes that are read. Readers allocate what they read, so
// it bounds memory too, without stopping the world as runtime.ReadMemStats.
type counter struct {
	r io.ReaderAt
	n int64
}

func (c *counter) ReadAt(b []byte, off int64) (int, error) {
	c.n += int64(len(b))
	return c.r.ReadAt(b, off)
}

// FuzzELF holds two properties for any bytes: no reader panics, and what is read
// and so allocated stays within a small multiple of the file. (TestFacts holds
// that a file without section headers tells the same facts.)
func FuzzELF(f *testing.F) {
	f.Add(sample().Bytes())
	bare := sample()
	bare.NoSections = true
	f.Add(bare.Bytes())
	static := sample()
	static.Static = true
	f.Add(static.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<20 {
			return
		}
		r := &counter{r: bytes.NewReader(data)}
		file, err := elffile.New(r, int64(len(data)))
		if err != nil {
			return
		}
		all(t, file)
		if limit := int64(64*len(data) + 1<<20); r.n > limit {
			t.Errorf("%d bytes read of a file of %d, limit %d", r.n, len(data), limit)
		}
	})
}

// TestTruncated cuts a file at every byte: every cut must give an error or the
// whole truth, never a panic.
func TestTruncated(t *testing.T) {
	l := sample()
	l.Static = true
	whole := l.Bytes()
	for n := range whole {
		f, err := elffile.New(bytes.NewReader(whole[:n]), int64(n))
		if err != nil {
			continue
		}
		all(t, f)
	}
}

// TestCorrupt overwrites every 8 bytes with values that overflow or point
// outside.
func TestCorrupt(t *testing.T) {
	l := sample()
	l.Static = true
	whole := l.Bytes()
	for _, v := range []byte{0xff, 0x7f, 0x80, 0x00} {
		for at := 0; at+8 <= len(whole); at += 4 {
			b := bytes.Clone(whole)
			for i := range 8 {
				b[at+i] = v
			}
			if f, err := elffile.New(bytes.NewReader(b), int64(len(b))); err == nil {
				all(t, f)
			}
		}
	}
}

func TestFacts(t *testing.T) {
	for _, noSections := range []bool{false, true} {
		l := sample()
		l.NoSections = noSections
		b := l.Bytes()
		f, err := elffile.New(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		syms, err := f.DynSymbols()
		if err != nil {
			t.Fatal(err)
		}
		if len(syms) != 5 || syms[2].Version != "GLIBC_2.34" || syms[2].Library != "libc.so.6" || !syms[2].Undefined() || syms[4].Undefined() {
			t.Errorf("no sections %v: symbols %+v", noSections, syms)
		}
		needs, err := f.Needs()
		if err != nil || len(needs) != 3 || needs[2].Version != "GLIBC_ABI_DT_RELR" {
			t.Errorf("no sections %v: needs %+v, %v", noSections, needs, err)
		}
		d, err := f.Dynamic()
		if err != nil || len(d.Needed) != 2 || d.Soname != "libx.so" || len(d.Runpath) != 1 || !d.BindNow {
			t.Errorf("no sections %v: dynamic %+v, %v", noSections, d, err)
		}
		if got := f.BuildID(); !bytes.Equal(got, []byte{1, 2, 3, 4}) {
			t.Errorf("no sections %v: build id %x", noSections, got)
		}
	}
}

func TestNotELF(t *testing.T) {
	_, err := elffile.New(bytes.NewReader(make([]byte, 64)), 64)
	var fe *elffile.FormatError
	if !errors.As(err, &fe) || fe.Off != 0 {
		t.Errorf("got %v, want a FormatError at 0", err)
	}
}
