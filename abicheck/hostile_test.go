package abicheck_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
)

// Libraries made up for TestMemory have code at codeAt, a page of data at
// dataAt that the file has no bytes of, and sections in between.
const (
	codeAt = 0x1000
	dataAt = 0x70000000
)

// A piece is a section of a made-up library.
type piece struct {
	name    string
	typ     elf.SectionType
	flags   elf.SectionFlag
	data    []byte
	link    uint32
	entsize uint64
}

func text(code []byte) piece {
	return piece{name: ".text", typ: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, data: code}
}

// static are .symtab, the second section, and its names.
func static(symbols []elf.Sym64, names []byte) []piece {
	b := make([]byte, 0, 24*len(symbols))
	for _, s := range symbols {
		b, _ = binary.Append(b, binary.LittleEndian, s)
	}
	return []piece{
		{name: ".symtab", typ: elf.SHT_SYMTAB, data: b, link: 3, entsize: 24},
		{name: ".strtab", typ: elf.SHT_STRTAB, data: names},
	}
}

// linked makes a library of sections, which begins with code. An allocated one
// has its place in the file as its address.
func linked(pieces ...piece) []byte {
	pieces = append(pieces, piece{name: ".shstrtab", typ: elf.SHT_STRTAB})
	names, at := []byte{0}, make([]uint32, len(pieces))
	for i, p := range pieces {
		at[i] = uint32(len(names))
		names = append(append(names, p.name...), 0)
	}
	pieces[len(pieces)-1].data = names
	heads := []elf.Section64{{}}
	out := make([]byte, codeAt)
	for i, p := range pieces {
		h := elf.Section64{Name: at[i], Type: uint32(p.typ), Flags: uint64(p.flags), Off: uint64(len(out)), Size: uint64(len(p.data)), Link: p.link, Entsize: p.entsize}
		if p.flags&elf.SHF_ALLOC != 0 {
			h.Addr = h.Off
		}
		heads = append(heads, h)
		out = append(out, p.data...)
	}
	code := uint64(len(pieces[0].data))
	var head bytes.Buffer
	le := binary.LittleEndian
	binary.Write(&head, le, elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1,
		Phoff: 64, Shoff: uint64(len(out)), Ehsize: 64, Phentsize: 56, Phnum: 2, Shentsize: 64, Shnum: uint16(len(heads)), Shstrndx: uint16(len(heads) - 1),
	})
	binary.Write(&head, le, []elf.Prog64{
		{Type: uint32(elf.PT_LOAD), Flags: 5, Off: codeAt, Vaddr: codeAt, Filesz: code, Memsz: code, Align: 0x1000},
		{Type: uint32(elf.PT_LOAD), Flags: 6, Vaddr: dataAt, Memsz: 0x1000, Align: 0x1000},
	})
	copy(out, head.Bytes())
	out, _ = binary.Append(out, le, heads)
	return out
}

// hostile makes a library of code and as many function symbols in it, all of
// one name.
func hostile(code []byte, symbols int) []byte {
	syms := make([]elf.Sym64, symbols)
	for i := range syms {
		syms[i] = elf.Sym64{Name: 1, Info: elf.ST_INFO(elf.STB_GLOBAL, elf.STT_FUNC), Shndx: 1, Value: codeAt + uint64(i%max(len(code), 1))}
	}
	return linked(append([]piece{text(code)}, static(syms, []byte("\x00f\x00"))...)...)
}

// hostileFrames makes a library with an .eh_frame of n ranges, each of other
// code where code is as large.
func hostileFrames(n, code int) []byte {
	return linked(text(repeat([]byte{0xc3}, code)), frames(unwinding(n, code)))
}

func frames(b []byte) piece {
	return piece{name: ".eh_frame", typ: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC, data: b}
}

// large makes a library of n functions as a compiler and a linker make them:
// with code above the baseline here and there, calls, a long name and an
// unwind range each. Every fourth asks what a test of the CPU has left in data.
func large(n int) []byte {
	const size = 128
	le := binary.LittleEndian
	code := make([]byte, 0, n*size)
	syms, names := make([]elf.Sym64, n), []byte{0}
	for i := range n {
		at := codeAt + i*size
		syms[i] = elf.Sym64{Name: uint32(len(names)), Info: elf.ST_INFO(elf.STB_LOCAL, elf.STT_FUNC), Shndx: 1, Value: uint64(at), Size: size}
		names = fmt.Appendf(names, "_ZN2at6native12_GLOBAL__N_130structured_upsample_nearest_out_%06dERKNS_6TensorEN3c108ArrayRefIlEENS5_8optionalIdEES9_S9_S4_\x00", i)
		rel := func(b []byte, to, behind int) []byte {
			return le.AppendUint32(b, uint32(to-(at+len(b)+4+behind)))
		}
		var b []byte
		switch {
		case i%4096 == 0: // cpuid; mov state(%rip), %eax
			b = rel(append(b, 0x0f, 0xa2, 0x89, 0x05), dataAt+i/4096%64*4, 0)
		case i%4 == 0: // cmpl $0, state(%rip); je +5; call next
			b = append(rel(append(b, 0x83, 0x3d), dataAt+i%64*4, 1), 0, 0x74, 5)
			b = rel(append(b, 0xe8), codeAt+(i+1)%n*size, 0)
		case i%16 == 1: // vaddps %ymm0, %ymm0, %ymm0
			b = append(b, 0xc5, 0xfc, 0x58, 0xc0)
		}
		b = rel(append(b, 0xe8), codeAt+i*31%n*size, 0)
		for len(b) < size-1 {
			b = append(b, 0x48, 0x89, 0xc7) // mov %rax, %rdi
		}
		code = append(append(code, b[:size-1]...), 0xc3)
	}
	ranges := unwinding(n, n)
	for i := range n { // of a function each, not of a byte
		r := ranges[len(ranges)-16*(n-i):]
		le.PutUint32(r[8:], uint32(codeAt+i*size))
		le.PutUint32(r[12:], size)
	}
	return linked(append(append([]piece{text(code)}, static(syms, names)...), frames(ranges))...)
}

// dynamic writes into b the headers of a library with its dynamic section at
// dynAt.
func dynamic(b []byte, tags []elf.Dyn64, loads ...elf.Prog64) {
	le := binary.LittleEndian
	var head, section bytes.Buffer
	binary.Write(&section, le, append(tags, elf.Dyn64{}))
	size := uint64(section.Len())
	binary.Write(&head, le, elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1,
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: uint16(len(loads) + 1),
	})
	binary.Write(&head, le, append(loads, elf.Prog64{Type: uint32(elf.PT_DYNAMIC), Flags: 4, Off: dynAt, Vaddr: dynAt, Filesz: size, Memsz: size}))
	copy(b, head.Bytes())
	copy(b[dynAt:], section.Bytes())
}

const dynAt = 0x1000

// hostileDynamic makes a library of n dynamic symbols in as few bytes as that
// takes: they share one name, and the hash table is two words.
func hostileDynamic(n int, undefined bool) []byte {
	const hashAt, strAt, symAt = 0x1100, 0x1200, 0x2000
	le := binary.LittleEndian
	b := make([]byte, symAt+24*n)
	size := uint64(len(b))
	dynamic(b, []elf.Dyn64{
		{Tag: int64(elf.DT_HASH), Val: hashAt}, {Tag: int64(elf.DT_STRTAB), Val: strAt}, {Tag: int64(elf.DT_STRSZ), Val: 64},
		{Tag: int64(elf.DT_SYMTAB), Val: symAt},
	}, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: 5, Filesz: size, Memsz: size, Align: 0x1000})
	le.PutUint32(b[hashAt+4:], uint32(n))
	copy(b[strAt+1:], "_ZN3c107dynamic9f")
	for i := 1; i < n; i++ {
		s := b[symAt+24*i:]
		le.PutUint32(s, 1+uint32(i%16))
		s[4] = byte(elf.STB_GLOBAL)<<4 | byte(elf.STT_FUNC)
		if !undefined {
			le.PutUint16(s[6:], 1)
			le.PutUint64(s[8:], uint64(symAt+i))
		}
	}
	return b
}

// hostileTable makes a library of a page of code and one table that a loader
// reads, found by the given tags of the dynamic section.
func hostileTable(table []byte, at, size elf.DynTag) []byte {
	const codeAt, tableAt = 0x2000, 0x3000
	b := make([]byte, tableAt, tableAt+len(table))
	n := uint64(len(table))
	dynamic(b, []elf.Dyn64{{Tag: int64(at), Val: tableAt}, {Tag: int64(size), Val: n}},
		elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: 5, Off: codeAt, Vaddr: codeAt, Filesz: 0x1000, Memsz: 0x1000, Align: 0x1000},
		elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: 6, Off: tableAt, Vaddr: tableAt, Filesz: n, Memsz: n, Align: 0x1000})
	for i := codeAt; i < tableAt; i++ {
		b[i] = 0xc3
	}
	return append(b, table...)
}

// relocations are n relative ones, each of another place to the same code.
func relocations(n int) []byte {
	b := make([]byte, 24*n)
	for i := range n {
		binary.LittleEndian.PutUint64(b[24*i:], uint64(0x3000+8*i))
		binary.LittleEndian.PutUint64(b[24*i+8:], uint64(elf.R_X86_64_RELATIVE))
		binary.LittleEndian.PutUint64(b[24*i+16:], 0x2000)
	}
	return b
}

// packed are relative relocations of 63 places a word.
func packed(n int) []byte {
	b := bytes.Repeat([]byte{0xff}, n)
	binary.LittleEndian.PutUint64(b, 0x3000)
	return b
}

// unwinding is an .eh_frame of n ranges, one byte of code each, as small as
// they can be.
func unwinding(n, code int) []byte {
	le := binary.LittleEndian
	b := []byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 1, 1, 1, 0x03}
	b[0] = byte(len(b) - 4)
	for i := range n {
		r := make([]byte, 16)
		le.PutUint32(r, 12)
		le.PutUint32(r[4:], uint32(len(b)+4))
		le.PutUint32(r[8:], uint32(0x1000+i%code))
		le.PutUint32(r[12:], 1)
		b = append(b, r...)
	}
	return b
}

// asObject makes an object of what hostile makes.
func asObject(b []byte) []byte {
	binary.LittleEndian.PutUint16(b[16:], uint16(elf.ET_REL))
	return b
}

// hostileMach makes a Mach-O dylib or object of n symbols of one name.
func hostileMach(n int, typ uint32) []byte {
	le := binary.LittleEndian
	const symAt = 0x1000
	b := make([]byte, symAt+16*n+16)
	for i, v := range []uint32{0xfeedfacf, 0x01000007, 3, typ, 2, 152 + 24, 0} {
		le.PutUint32(b[4*i:], v)
	}
	c := b[32:]
	le.PutUint32(c, 0x19) // LC_SEGMENT_64 with one section of code
	le.PutUint32(c[4:], 152)
	le.PutUint64(c[32:], symAt)
	le.PutUint64(c[48:], symAt)
	le.PutUint32(c[60:], 7)
	le.PutUint32(c[64:], 1)
	copy(c[72:], "__text")
	copy(c[88:], "__TEXT")
	le.PutUint64(c[72+40:], 0x800)
	le.PutUint32(c[72+48:], 0x800)
	le.PutUint32(c[72+64:], 0x80000400)
	c = b[32+152:]
	le.PutUint32(c, 2) // LC_SYMTAB
	le.PutUint32(c[4:], 24)
	le.PutUint32(c[8:], symAt)
	le.PutUint32(c[12:], uint32(n))
	le.PutUint32(c[16:], uint32(symAt+16*n))
	le.PutUint32(c[20:], 16)
	copy(b[symAt+16*n:], "\x00_ab")
	for i := range n {
		s := b[symAt+16*i:]
		le.PutUint32(s, 1)
		s[4] = 1 // undefined
		if i%2 == 0 {
			s[4], s[5] = 0xf, 1
			le.PutUint64(s[8:], uint64(i%0x800))
		}
	}
	return b
}

func repeat(unit []byte, n int) []byte { return bytes.Repeat(unit, n/len(unit)) }
