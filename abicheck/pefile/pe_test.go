package pefile_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/thox-ai/thoxbuild/abicheck/pefile"
)

// image writes a 64-bit DLL with one section that holds its imports and
// exports; file offsets and addresses are the same.
func image() []byte {
	le := binary.LittleEndian
	const base = 0x400
	b := make([]byte, 0x800)
	copy(b, "MZ")
	le.PutUint32(b[0x3c:], 0x80)
	copy(b[0x80:], "PE\x00\x00")
	coff := b[0x84:]
	le.PutUint16(coff, 0x8664)
	le.PutUint16(coff[2:], 1)
	le.PutUint16(coff[16:], 240)
	opt := b[0x98:]
	le.PutUint16(opt, 0x20b)
	le.PutUint16(opt[48:], 6)
	le.PutUint16(opt[70:], 0x140)
	le.PutUint32(opt[108:], 16)
	le.PutUint32(opt[112:], base)      // exports
	le.PutUint32(opt[120:], base+0x80) // imports
	sec := b[0x98+240:]
	copy(sec, ".rdata")
	le.PutUint32(sec[8:], 0x400)
	le.PutUint32(sec[12:], base)
	le.PutUint32(sec[16:], 0x400)
	le.PutUint32(sec[20:], base)
	// exports: one name
	le.PutUint32(b[base+24:], 1)
	le.PutUint32(b[base+32:], base+0x40)
	le.PutUint32(b[base+0x40:], base+0x48)
	copy(b[base+0x48:], "PyInit_x\x00")
	// imports: python3.dll with a name and a number
	imp := b[base+0x80:]
	le.PutUint32(imp, base+0x100)
	le.PutUint32(imp[12:], base+0x140)
	copy(b[base+0x140:], "python3.dll\x00")
	le.PutUint64(b[base+0x100:], base+0x150)
	le.PutUint64(b[base+0x108:], 1<<63|7)
	copy(b[base+0x152:], "PyModule_Create2\x00")
	return b
}

func TestImage(t *testing.T) {
	b := image()
	f, err := pefile.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	want := []pefile.Import{{DLL: "python3.dll", Names: []string{"PyModule_Create2", "#7"}}}
	if diff := cmp.Diff(want, f.Imports); diff != "" {
		t.Errorf("imports (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"PyInit_x"}, f.Exports); diff != "" {
		t.Errorf("exports (-want +got)\n%s", diff)
	}
	if f.Machine != 0x8664 || f.Characteristics != 0x140 || f.MajorOS != 6 {
		t.Errorf("machine 0x%x, characteristics 0x%x, system %d", f.Machine, f.Characteristics, f.MajorOS)
	}
}

func TestTruncated(t *testing.T) {
	whole := image()
	for n := 0; n < 0x600; n++ {
		pefile.New(bytes.NewReader(whole[:n]), int64(n))
	}
}

// FuzzPE holds that what is told about a file lies in it: no panic, and no
// more bytes of names than the file has.
func FuzzPE(f *testing.F) {
	f.Add(image())
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		file, err := pefile.New(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		sum := 0
		for _, imp := range file.Imports {
			for _, n := range append(imp.Names, imp.DLL) {
				if n[:min(1, len(n))] != "#" {
					sum += len(n)
				}
			}
		}
		for _, n := range file.Exports {
			sum += len(n)
		}
		// A byte that is no UTF-8 becomes one question mark, never more.
		if sum > len(data) {
			t.Errorf("%d bytes of names in a file of %d", sum, len(data))
		}
	})
}
