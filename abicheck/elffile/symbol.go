package elffile

import (
	"debug/elf"
)

// Symbol is an entry of the dynamic or the static symbol table.
type Symbol struct {
	Name string
	// Version is the symbol's version, empty without one; for an undefined
	// symbol Library is the soname that must have it.
	Version string
	Library string
	// Hidden marks a non-default version (name@VER rather than name@@VER).
	Hidden bool
	Bind   elf.SymBind
	Type   elf.SymType
	Vis    elf.SymVis
	// Shndx is the section as the file has it, with SHN_XINDEX resolved.
	Shndx uint32
	Value uint64
	Size  uint64
}

// Undefined reports whether another file has to define the symbol.
func (s *Symbol) Undefined() bool { return s.Shndx == uint32(elf.SHN_UNDEF) }

// SectionIndex is the index of the defining section, or -1 for undefined,
// absolute and common symbols.
func (s *Symbol) SectionIndex() int {
	if s.Shndx == 0 || s.Shndx >= uint32(elf.SHN_LORESERVE) && s.Shndx <= 0xffff {
		return -1
	}
	return int(s.Shndx)
}

// Symbols reads the static symbol table (.symtab), index 0 included, so that
// indices of relocations and groups fit. A stripped file has none: nil.
func (f *File) Symbols() ([]Symbol, error) { return f.symtab() }

// DynSymbols reads the dynamic symbol table, index 0 included, with versions.
// A file without one gives nil.
func (f *File) DynSymbols() ([]Symbol, error) { return f.dynsym() }

func (f *File) symSize() uint64 {
	if f.Is64() {
		return 24
	}
	return 16
}

// staticTables finds .symtab and its string table; tab is nil in a stripped file.
func (f *File) staticTables() (tab, strs, ext *Section, err error) {
	for i := range f.Sections {
		switch s := &f.Sections[i]; s.Type {
		case elf.SHT_SYMTAB:
			tab = s
		case elf.SHT_SYMTAB_SHNDX:
			ext = s
		}
	}
	if tab == nil {
		return nil, nil, nil, nil
	}
	// With what the rules make of it, as for dynamic symbols.
	const each = 550
	if n := tab.Size / f.symSize(); n > f.Room(each) {
		return nil, nil, nil, formatErr(int64(tab.Offset), "%d symbols: a file of %d bytes is read with %d at most", n, f.src.Size, f.Room(each))
	}
	strs = f.Section(int(tab.Link))
	if strs == nil || strs.Type != elf.SHT_STRTAB {
		return nil, nil, nil, formatErr(int64(tab.Offset), "symbol table without a string table")
	}
	return tab, strs, ext, nil
}

func (f *File) readSymtab() ([]Symbol, error) {
	tab, strs, ext, err := f.staticTables()
	if tab == nil || err != nil {
		return nil, err
	}
	data, err := f.Data(tab)
	if err != nil {
		return nil, err
	}
	names, err := f.text(strs)
	if err != nil {
		return nil, err
	}
	var wide []byte
	if ext != nil {
		if wide, err = f.Data(ext); err != nil {
			return nil, err
		}
	}
	return f.decodeSymbols(data, names, wide)
}

func (f *File) decodeSymbols(data []byte, strs string, wide []byte) ([]Symbol, error) {
	size := f.symSize()
	syms := make([]Symbol, uint64(len(data))/size)
	for i := range syms {
		s := &syms[i]
		name := f.decodeSymbol(s, i, data[uint64(i)*size:], wide)
		if name == 0 {
			continue
		}
		var ok bool
		if s.Name, ok = cString(strs, uint64(name)); !ok {
			return nil, outside(i, name, len(strs))
		}
	}
	return syms, nil
}

func outside(sym int, name uint32, size int) error {
	return formatErr(int64(name), "symbol %d has its name outside the string table (%d bytes)", sym, size)
}

// decodeSymbol fills in symbol i, which b begins with, but for its name, whose
// place it returns. wide is the table of the section indices that do not fit.
func (f *File) decodeSymbol(s *Symbol, i int, b, wide []byte) (name uint32) {
	o := f.Order
	name = o.Uint32(b)
	var info, other uint8
	if f.Is64() {
		info, other = b[4], b[5]
		s.Shndx = uint32(o.Uint16(b[6:]))
		s.Value, s.Size = o.Uint64(b[8:]), o.Uint64(b[16:])
	} else {
		s.Value, s.Size = uint64(o.Uint32(b[4:])), uint64(o.Uint32(b[8:]))
		info, other = b[12], b[13]
		s.Shndx = uint32(o.Uint16(b[14:]))
	}
	s.Bind, s.Type, s.Vis = elf.ST_BIND(info), elf.ST_TYPE(info), elf.ST_VISIBILITY(other)
	if s.Shndx == uint32(elf.SHN_XINDEX) && len(wide) >= 4*(i+1) {
		s.Shndx = o.Uint32(wide[4*i:])
	}
	return name
}
