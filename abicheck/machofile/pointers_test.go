package machofile_test

import (
	"bytes"
	"debug/macho"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/thox-ai/thoxbuild/abicheck/machofile"
	"github.com/thox-ai/thoxbuild/abicheck/machofile/machotest"
)

// withPointers makes a file of three pages at address 0x1000000: load commands,
// a page of data with a chain of pointers in the given format, and tables:
//
//	data+0x10  bound to _import1
//	data+0x20  the address 0x1000040, at 8 bytes' distance the last
func withPointers(format uint16) []byte {
	const base, page = 0x1000000, 0x1000
	le := binary.LittleEndian
	data := make([]byte, page)
	bind, rebase, last := uint64(1)<<63|1, uint64(0x40), uint64(0x44)
	unit, next := uint64(4), 51
	switch format {
	case 1, 9, 12:
		unit = 8
		bind = uint64(1)<<62 | 1
		last |= 1 << 63 // signed: an offset from the start, whatever the format
	}
	if format == 1 || format == 2 {
		rebase += base
		if format == 2 {
			last += base
		}
	}
	le.PutUint64(data[0x10:], bind|(0x10/unit)<<next)
	le.PutUint64(data[0x20:], rebase|(8/unit)<<next)
	le.PutUint64(data[0x28:], last)

	// Header, starts at 28, imports at 60, names at 68.
	fixups := machotest.Words(0, 28, 60, 68, 2, 1, 0)
	fixups = append(fixups, machotest.Words(2, 0, 12)...) // the second segment's are 12 bytes on
	chains := le.AppendUint16(le.AppendUint16(machotest.Words(24), page), format)
	chains = append(chains, machotest.Words(page, 0, 0)...)
	chains = le.AppendUint16(le.AppendUint16(chains, 1), 0x10)
	fixups = append(fixups, chains...)
	if len(fixups) != 64 {
		fixups = append(fixups, make([]byte, 64-len(fixups))...)
	}
	le.PutUint32(fixups[8:], 64)
	le.PutUint32(fixups[12:], 72)
	fixups = append(fixups, machotest.Words(1|1<<9, 1|10<<9)...)
	fixups = append(fixups, "\x00_import0\x00_import1\x00"...)

	starts := []byte{0x80, 0x02, 0x10, 0x00} // base+0x100, base+0x110
	inCode := le.AppendUint16(le.AppendUint16(machotest.Words(0x108), 8), 1)
	indirect := machotest.Words(2, 0x80000000, 0) // counted with the symbols for debuggers

	tables := uint32(2 * page)
	at := func(n int) uint32 { return tables + uint32(n) }
	segment := func(name string, addr, off uint64, prot uint32, sections ...[]byte) machotest.Command {
		b := make([]byte, 16)
		copy(b, name)
		for _, v := range []uint64{addr, page, off, page} {
			b = le.AppendUint64(b, v)
		}
		b = append(b, machotest.Words(prot, prot, uint32(len(sections)), 0)...)
		return machotest.Command{Cmd: 0x19, Body: append(b, bytes.Join(sections, nil)...)}
	}
	got := make([]byte, 32)
	copy(got, "__got")
	copy(got[16:], "__DATA")
	got = le.AppendUint64(le.AppendUint64(got, base+page+0x100), 24)
	got = append(got, machotest.Words(page+0x100, 3, 0, 0, machofile.NonLazyPointers, 0, 0, 0)...)

	b := machotest.Dylib(macho.CpuArm64, []machotest.Command{
		segment("__TEXT", base, 0, 5), segment("__DATA", base+page, page, 3, got),
		{Cmd: 0x80000034, Body: machotest.Words(at(0), uint32(len(fixups)))},
		{Cmd: 0x26, Body: machotest.Words(at(len(fixups)), uint32(len(starts)))},
		{Cmd: 0x29, Body: machotest.Words(at(len(fixups)+len(starts)), uint32(len(inCode)))},
		{Cmd: 0xb, Body: machotest.Words(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, at(len(fixups)+len(starts)+len(inCode)), 3, 0, 0, 0, 0)},
	},
		machofile.Symbol{Name: "_local", Type: 0x0f, Sect: 1, Value: base + 0x100},
		machofile.Symbol{Name: "_debug", Type: 0x24},
		machofile.Symbol{Name: "_got", Type: 1})
	b = append(b, make([]byte, page-len(b))...)
	return slices.Concat(b, data, fixups, starts, inCode, indirect)
}

func TestPointers(t *testing.T) {
	for _, format := range []uint16{1, 2, 6, 9, 12} {
		b := withPointers(format)
		f, err := machofile.New(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Pointers()
		if err != nil {
			t.Fatal(err)
		}
		want := []machofile.Pointer{
			{Place: 0x1001100, Name: "_got"}, {Place: 0x1001110, To: 0x1000100}, // of the table; its second entry is local
			{Place: 0x1001010, Name: "_import1"}, {Place: 0x1001020, To: 0x1000040}, {Place: 0x1001028, To: 0x1000044},
		}
		if !slices.Equal(got, want) || !f.Chained() {
			t.Errorf("format %d: got %+v\nexpected %+v", format, got, want)
		}
		starts, err := f.FunctionStarts()
		if err != nil || !slices.Equal(starts, []uint64{0x1000100, 0x1000110}) {
			t.Errorf("functions start at %x, %v", starts, err)
		}
		data, err := f.DataInCode()
		if err != nil || !slices.Equal(data, []machofile.Range{{Addr: 0x1000108, Size: 8}}) {
			t.Errorf("data in code %x, %v", data, err)
		}
	}
}

// TestChainsOutside: tables that point outside themselves are named, not
// followed.
func TestChainsOutside(t *testing.T) {
	for name, change := range map[string]func(fixups []byte){
		"starts":   func(b []byte) { binary.LittleEndian.PutUint32(b[4:], 1<<31) },
		"segments": func(b []byte) { binary.LittleEndian.PutUint32(b[28+8:], 1<<30) },
		"pages":    func(b []byte) { binary.LittleEndian.PutUint16(b[28+12+20:], 0x7fff) },
	} {
		b := withPointers(2)
		change(b[0x2000:])
		f, err := machofile.New(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Pointers(); err == nil {
			t.Errorf("%s outside the fixups: no error", name)
		}
	}
}
