package machofile_test

import (
	"bytes"
	"debug/macho"
	"io"
	"testing"

	"github.com/thox-ai/thoxbuild/abicheck/machofile"
	"github.com/thox-ai/thoxbuild/abicheck/machofile/machotest"
)

func sample() []byte {
	return machotest.Dylib(macho.CpuArm64, []machotest.Command{
		{Cmd: 0x32, Body: machotest.Words(1, 14<<16|2<<8, 15<<16, 0)},
		machotest.Named(0x8000001c, "@loader_path/lib"),
		machotest.Named(0xc, "/usr/lib/libSystem.B.dylib", 2, 0, 0),
		machotest.Signature(),
	}, machofile.Symbol{Name: "_PyInit_x", Type: 0x0f, Sect: 1, Value: 16},
		machofile.Symbol{Name: "_PyModule_Create2", Type: 1, Desc: 0xfe00},
		machofile.Symbol{Name: "__ZN1fE", Type: 0x0f, Sect: 1, Desc: 0x80, Value: 32})
}

func TestFile(t *testing.T) {
	b := sample()
	f, err := machofile.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if f.Arch() != "arm64" || !f.HasMinOS || f.MinOS.String() != "14.2" || f.Platform != machofile.PlatformMacOS {
		t.Errorf("arch %s, minimum %v %v on platform %d", f.Arch(), f.HasMinOS, f.MinOS, f.Platform)
	}
	if len(f.Rpaths) != 1 || f.Rpaths[0] != "@loader_path/lib" || len(f.Dylibs) != 1 || f.Dylibs[0].Name != "/usr/lib/libSystem.B.dylib" || !f.Signature {
		t.Errorf("rpaths %v, libraries %v, signature %v", f.Rpaths, f.Dylibs, f.Signature)
	}
	syms, err := f.Symbols()
	if err != nil || len(syms) != 3 {
		t.Fatalf("%d symbols, %v", len(syms), err)
	}
	if syms[0].Undefined() || !syms[1].Undefined() || syms[1].Library() != 0xfe || !syms[2].WeakDef() || syms[0].WeakDef() {
		t.Errorf("symbols %+v", syms)
	}
}

// TestSignature changes one byte at a time: in what is signed, it breaks the
// signature; in the signature, it is an error of its own.
func TestSignature(t *testing.T) {
	good := sample()
	verify := func(b []byte) error {
		f, err := machofile.New(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return err
		}
		return f.VerifySignature()
	}
	if err := verify(good); err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(good, []byte{0xfa, 0xde, 0x0c, 0xc0})
	for _, off := range []int{24, 200, at - 1, at, at + 20, at + 20 + 16, at + 20 + 28, at + 20 + 32, at + 20 + 36, at + 20 + 37, len(good) - 1} {
		b := bytes.Clone(good)
		b[off] ^= 0x10
		if err := verify(b); err == nil {
			t.Errorf("byte 0x%x changed: no error", off)
		}
	}
	if err := verify(machotest.Dylib(macho.CpuArm64, nil)); err != nil {
		t.Errorf("without a signature: %v", err)
	}
}

// TestVersionMin reads the command that LC_BUILD_VERSION replaced.
func TestVersionMin(t *testing.T) {
	b := machotest.Dylib(macho.CpuAmd64, []machotest.Command{{Cmd: 0x24, Body: machotest.Words(10<<16|15<<8|7, 11<<16)}})
	f, err := machofile.New(bytes.NewReader(b), int64(len(b)))
	if err != nil || f.MinOS.String() != "10.15.7" || f.Platform != machofile.PlatformMacOS {
		t.Errorf("got %+v, %v", f, err)
	}
}

func TestSlices(t *testing.T) {
	b := machotest.Fat(sample(), machotest.Dylib(macho.CpuAmd64, nil))
	slices, err := machofile.Slices(bytes.NewReader(b), int64(len(b)))
	if err != nil || len(slices) != 2 || slices[0].Arch != "arm64" || slices[1].Arch != "x86_64" {
		t.Fatalf("got %+v, %v", slices, err)
	}
	if machofile.IsFat([]byte("\xca\xfe\xba\xbe\x00\x00\x00\x34")) {
		t.Error("a Java class file is taken for a fat file")
	}
}

func all(r io.ReaderAt, size int64) {
	slices, err := machofile.Slices(r, size)
	if err == nil {
		for _, s := range slices {
			one(io.NewSectionReader(r, s.Off, s.Size), s.Size)
		}
		return
	}
	one(r, size)
}

// one reads a file of one architecture; a fat file is none, also inside another.
func one(r io.ReaderAt, size int64) {
	f, err := machofile.New(r, size)
	if err != nil {
		return
	}
	f.Symbols()
	f.VerifySignature()
	f.FunctionStarts()
	f.DataInCode()
	f.Pointers()
	for i := range f.Segments {
		for j := range f.Segments[i].Sections {
			if j < 16 {
				f.Data(&f.Segments[i].Sections[j])
				f.Relocs(&f.Segments[i].Sections[j], func(machofile.Reloc) {})
			}
		}
	}
}

// FuzzMachO holds that no bytes make the reader panic or read, and so
// allocate, more than a small multiple of the file.
func FuzzMachO(f *testing.F) {
	f.Add(sample())
	f.Add(machotest.Fat(sample(), sample()))
	f.Add(withPointers(2))
	f.Add(withPointers(9))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<18 {
			return
		}
		r := &counter{r: bytes.NewReader(data)}
		all(r, int64(len(data)))
		if limit := int64(1024*len(data) + 1<<20); r.n > limit {
			t.Errorf("%d bytes read of a file of %d", r.n, len(data))
		}
	})
}

type counter struct {
	r io.ReaderAt
	n int64
}

func (c *counter) ReadAt(b []byte, off int64) (int, error) {
	c.n += int64(len(b))
	return c.r.ReadAt(b, off)
}

func TestTruncated(t *testing.T) {
	for _, whole := range [][]byte{sample(), machotest.Fat(sample(), sample()), withPointers(6)} {
		for n := range whole {
			all(bytes.NewReader(whole[:n]), int64(n))
		}
	}
}
