// Package elftest makes small ELF files for tests, byte by byte, so that no
// binaries lie in the repository and every odd thing can be said in one line.
package elftest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// Library describes a shared library of a few hundred bytes.
type Library struct {
	Machine                elf.Machine // EM_X86_64 when zero
	Needed                 []string
	Soname, Rpath, Runpath string
	Symbols                []Symbol
	// Needs are versions that no symbol uses.
	Needs []Need
	// Stack are the flags of PT_GNU_STACK; StackRW when nil, none at all with
	// NoStack.
	Stack   *elf.ProgFlag
	NoStack bool
	NoRelro bool
	Lazy    bool // no DF_BIND_NOW
	TextRel bool
	// StaticTLS sets DF_STATIC_TLS.
	StaticTLS bool
	Interp    bool
	// LoadFlags are those of the one segment, PF_R when zero.
	LoadFlags elf.ProgFlag
	Align     uint64 // 0x10000 when zero
	// Data goes into .rodata, Fatbin into .nv_fatbin.
	Data, Fatbin []byte
	BuildID      []byte
	// Static repeats the symbols in .symtab.
	Static bool
	// NoSections leaves the section headers out, as sstrip does.
	NoSections bool
}

// Symbol is a dynamic symbol: undefined unless Defined is set.
type Symbol struct {
	Name             string
	Version, Library string
	Defined, Local   bool
	Bind             elf.SymBind // STB_GLOBAL when zero, unless Local
	Vis              elf.SymVis
}

// Need is a version of a library.
type Need struct {
	Library, Version string
	Weak             bool
}

type section struct {
	name     string
	typ      elf.SectionType
	off, len int
	link     uint32
	entsize  uint64
	info     uint32
}

// Bytes writes the file.
func (l Library) Bytes() []byte {
	le := binary.LittleEndian
	if l.Machine == 0 {
		l.Machine = elf.EM_X86_64
	}
	strs := []byte{0}
	str := func(s string) uint32 {
		if s == "" {
			return 0
		}
		at := len(strs)
		strs = append(append(strs, s...), 0)
		return uint32(at)
	}
	u16 := func(b []byte, v int) []byte { return le.AppendUint16(b, uint16(v)) }
	u32 := func(b []byte, v uint32) []byte { return le.AppendUint32(b, v) }
	u64 := func(b []byte, v uint64) []byte { return le.AppendUint64(b, v) }

	// Versions get indices from 2 on, grouped by library.
	index := map[Need]int{}
	var libs []string
	byLib := map[string][]Need{}
	note := func(n Need) {
		if n.Version == "" || index[n] != 0 {
			return
		}
		if byLib[n.Library] == nil {
			libs = append(libs, n.Library)
		}
		index[n] = len(index) + 2
		byLib[n.Library] = append(byLib[n.Library], n)
	}
	for _, s := range l.Symbols {
		note(Need{Library: s.Library, Version: s.Version})
	}
	for _, n := range l.Needs {
		note(n)
	}
	dynsym, versym := make([]byte, 24), make([]byte, 2)
	for _, s := range l.Symbols {
		bind := s.Bind
		if bind == 0 && !s.Local {
			bind = elf.STB_GLOBAL
		}
		dynsym = u32(dynsym, str(s.Name))
		dynsym = append(dynsym, byte(bind)<<4|byte(elf.STT_FUNC), byte(s.Vis))
		shndx, value := 0, uint64(0)
		if s.Defined {
			shndx, value = 1, 64
		}
		dynsym = u64(u64(u16(dynsym, shndx), value), 0)
		v := 1
		if i := index[Need{Library: s.Library, Version: s.Version}]; i != 0 {
			v = i
		}
		versym = u16(versym, v)
	}
	var verneed []byte
	for i, lib := range libs {
		needs := byLib[lib]
		size := uint32(16 + 16*len(needs))
		if i == len(libs)-1 {
			size = 0
		}
		verneed = u32(u32(u32(u16(u16(verneed, 1), len(needs)), str(lib)), 16), size)
		for j, n := range needs {
			next, flags := uint32(16), 0
			if n.Weak {
				flags = 2
			}
			if j == len(needs)-1 {
				next = 0
			}
			verneed = u32(u32(u16(u16(u32(verneed, 0), flags), index[n]), str(n.Version)), next)
		}
	}
	hash := u32(u32(u32(u32(nil, 1), uint32(len(l.Symbols)+1)), 0), 0)
	hash = append(hash, make([]byte, 4*len(l.Symbols))...)
	var noteBytes []byte
	if l.BuildID != nil {
		noteBytes = u32(u32(u32(nil, 4), uint32(len(l.BuildID))), 3)
		noteBytes = append(append(noteBytes, "GNU\x00"...), l.BuildID...)
	}

	var dynTags [][2]uint64
	add := func(t elf.DynTag, v uint64) { dynTags = append(dynTags, [2]uint64{uint64(t), v}) }
	for _, n := range l.Needed {
		add(elf.DT_NEEDED, uint64(str(n)))
	}
	for _, p := range []struct {
		t elf.DynTag
		s string
	}{{elf.DT_SONAME, l.Soname}, {elf.DT_RPATH, l.Rpath}, {elf.DT_RUNPATH, l.Runpath}} {
		if p.s != "" {
			add(p.t, uint64(str(p.s)))
		}
	}
	var flags elf.DynFlag
	if !l.Lazy {
		flags |= elf.DF_BIND_NOW
	}
	if l.TextRel {
		flags |= elf.DF_TEXTREL
	}
	if l.StaticTLS {
		flags |= elf.DF_STATIC_TLS
	}
	add(elf.DT_FLAGS, uint64(flags))

	progs := 2
	for _, on := range []bool{!l.NoStack, !l.NoRelro, l.Interp, noteBytes != nil} {
		if on {
			progs++
		}
	}
	out := make([]byte, 64+56*progs)
	var secs []section
	put := func(name string, t elf.SectionType, b []byte, link uint32, entsize uint64) int {
		for len(out)%16 != 0 {
			out = append(out, 0)
		}
		at := len(out)
		out = append(out, b...)
		secs = append(secs, section{name: name, typ: t, off: at, len: len(b), link: link, entsize: entsize})
		return at
	}
	strAt := put(".dynstr", elf.SHT_STRTAB, strs, 0, 0)
	symAt := put(".dynsym", elf.SHT_DYNSYM, dynsym, 1, 24)
	verAt := put(".gnu.version", elf.SHT_GNU_VERSYM, versym, 2, 2)
	needAt := put(".gnu.version_r", elf.SHT_GNU_VERNEED, verneed, 1, 0)
	secs[len(secs)-1].info = uint32(len(libs))
	hashAt := put(".hash", elf.SHT_HASH, hash, 2, 4)
	if l.Data != nil {
		put(".rodata", elf.SHT_PROGBITS, l.Data, 0, 0)
	}
	if l.Fatbin != nil {
		put(".nv_fatbin", elf.SHT_PROGBITS, l.Fatbin, 0, 0)
	}
	noteAt := 0
	if noteBytes != nil {
		noteAt = put(".note.gnu.build-id", elf.SHT_NOTE, noteBytes, 0, 0)
	}
	if l.Static {
		put(".symtab", elf.SHT_SYMTAB, dynsym, 1, 24)
	}
	add(elf.DT_STRTAB, uint64(strAt))
	add(elf.DT_STRSZ, uint64(len(strs)))
	add(elf.DT_SYMTAB, uint64(symAt))
	add(elf.DT_HASH, uint64(hashAt))
	add(elf.DT_VERSYM, uint64(verAt))
	if len(libs) > 0 {
		add(elf.DT_VERNEED, uint64(needAt))
		add(elf.DT_VERNEEDNUM, uint64(len(libs)))
	}
	add(elf.DT_NULL, 0)
	var dyn []byte
	for _, t := range dynTags {
		dyn = u64(u64(dyn, t[0]), t[1])
	}
	dynAt := put(".dynamic", elf.SHT_DYNAMIC, dyn, 1, 16)
	loadEnd := len(out)

	shoff := 0
	if !l.NoSections {
		names := []byte{0}
		type nameAt struct{ at uint32 }
		var at []nameAt
		secs = append(secs, section{name: ".shstrtab", typ: elf.SHT_STRTAB})
		for _, s := range secs {
			at = append(at, nameAt{uint32(len(names))})
			names = append(append(names, s.name...), 0)
		}
		secs[len(secs)-1].off, secs[len(secs)-1].len = len(out), len(names)
		out = append(out, names...)
		for len(out)%8 != 0 {
			out = append(out, 0)
		}
		shoff = len(out)
		out = append(out, make([]byte, 64)...)
		for i, s := range secs {
			out = u32(u32(out, at[i].at), uint32(s.typ))
			out = u64(out, uint64(elf.SHF_ALLOC))
			out = u64(u64(u64(out, uint64(s.off)), uint64(s.off)), uint64(s.len))
			out = u64(u64(u32(u32(out, s.link), s.info), 8), s.entsize)
		}
	}

	h := append([]byte(elf.ELFMAG), byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	h = u32(u16(u16(h, int(elf.ET_DYN)), int(l.Machine)), 1)
	h = u64(u64(u64(h, 0), 64), uint64(shoff))
	h = u16(u16(u16(u32(h, 0), 64), 56), progs)
	if shoff == 0 {
		h = u16(u16(u16(h, 64), 0), 0)
	} else {
		h = u16(u16(u16(h, 64), len(secs)+1), len(secs))
	}
	prog := func(t elf.ProgType, fl elf.ProgFlag, off, size, align uint64) {
		h = u32(u32(h, uint32(t)), uint32(fl))
		h = u64(u64(u64(u64(u64(u64(h, off), off), off), size), size), align)
	}
	loadFlags, align := l.LoadFlags, l.Align
	if loadFlags == 0 {
		loadFlags = elf.PF_R
	}
	if align == 0 {
		align = 0x10000
	}
	prog(elf.PT_LOAD, loadFlags, 0, uint64(loadEnd), align)
	prog(elf.PT_DYNAMIC, elf.PF_R|elf.PF_W, uint64(dynAt), uint64(len(dyn)), 8)
	if !l.NoStack {
		fl := elf.PF_R | elf.PF_W
		if l.Stack != nil {
			fl = *l.Stack
		}
		prog(elf.PT_GNU_STACK, fl, 0, 0, 16)
	}
	if !l.NoRelro {
		prog(elf.PT_GNU_RELRO, elf.PF_R, uint64(dynAt), uint64(len(dyn)), 1)
	}
	if l.Interp {
		prog(elf.PT_INTERP, elf.PF_R, uint64(strAt), 1, 1)
	}
	if noteBytes != nil {
		prog(elf.PT_NOTE, elf.PF_R, uint64(noteAt), uint64(len(noteBytes)), 4)
	}
	copy(out, h)
	return bytes.Clone(out)
}
