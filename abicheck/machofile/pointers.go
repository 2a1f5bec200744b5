package machofile

import "sort"

// Base is the address of the file's first byte.
func (f *File) Base() uint64 {
	for i := range f.Segments {
		if s := &f.Segments[i]; s.Off == 0 && s.Filesz > 0 {
			return s.Addr
		}
	}
	return 0
}

// FunctionStarts lists the addresses of LC_FUNCTION_STARTS, ascending.
func (f *File) FunctionStarts() ([]uint64, error) {
	if f.FuncStarts.Size == 0 {
		return nil, nil
	}
	b, err := f.span(f.FuncStarts, "function starts")
	if err != nil {
		return nil, err
	}
	var out []uint64
	at := f.Base()
	for len(b) > 0 {
		// ULEB128 distances, up to a zero.
		var d uint64
		n := 0
		for ; n < len(b) && n < 10; n++ {
			d |= uint64(b[n]&0x7f) << (7 * n)
			if b[n]&0x80 == 0 {
				break
			}
		}
		if n >= len(b) || n == 10 || d == 0 {
			break
		}
		b = b[n+1:]
		at += d
		out = append(out, at)
	}
	return out, nil
}

// Range is a run of addresses.
type Range struct{ Addr, Size uint64 }

// DataInCode lists what LC_DATA_IN_CODE says is no instruction, ascending.
func (f *File) DataInCode() ([]Range, error) {
	if f.dataInCode.Size == 0 {
		return nil, nil
	}
	b, err := f.span(f.dataInCode, "data in code")
	if err != nil {
		return nil, err
	}
	var out []Range
	for ; len(b) >= 8; b = b[8:] {
		// The offset is one of the file, which its first segment maps from 0 on.
		out = append(out, Range{f.Base() + uint64(f.Order.Uint32(b)), uint64(f.Order.Uint16(b[4:]))})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Addr < out[j].Addr })
	return out, nil
}

// Pointer is a word that dyld fills in: with the address of something that
// another library defines, by Name, or with an address of this file.
type Pointer struct {
	Place uint64
	To    uint64
	Name  string
}

// Pointers lists the pointers that the file describes: those of the indirect
// symbol table, and all of LC_DYLD_CHAINED_FIXUPS. Files with the older
// LC_DYLD_INFO have local addresses in place already, as Chained tells; their
// opcodes are not read.
func (f *File) Pointers() ([]Pointer, error) {
	out, err := f.indirectPointers()
	if err != nil {
		return nil, err
	}
	more, err := f.chainedPointers()
	return append(out, more...), err
}

// Chained reports whether words in data are links of a chain, and no addresses.
func (f *File) Chained() bool { return f.fixups.Size > 0 }

// indirectPointers reads which symbol each entry of a GOT stands for.
func (f *File) indirectPointers() ([]Pointer, error) {
	if f.indirect.Size == 0 || !f.wide {
		return nil, nil
	}
	table, err := f.span(f.indirect, "indirect symbol table")
	if err != nil {
		return nil, err
	}
	syms, err := f.symsFn()
	if err != nil {
		return nil, err
	}
	var out []Pointer
	for i := range f.Segments {
		for j := range f.Segments[i].Sections {
			s := &f.Segments[i].Sections[j]
			if t := s.Type(); t != NonLazyPointers && t != LazyPointers {
				continue
			}
			if most := f.src.Room(perPointer); uint64(len(out))+s.Size/8 > most {
				return nil, formatErr(int64(s.Off), "more than %d pointers in a file of %d bytes", most, f.src.Size)
			}
			first := uint64(s.Reserved1)
			for k := uint64(0); k < s.Size/8 && 4*(first+k)+4 <= uint64(len(table)); k++ {
				n := f.Order.Uint32(table[4*(first+k):])
				// Local and absolute entries have a high bit.
				if uint64(n) >= uint64(len(syms.place)) || syms.place[n] < 0 {
					continue
				}
				if y := &syms.list[syms.place[n]]; y.Undefined() {
					out = append(out, Pointer{Place: s.Addr + 8*k, Name: y.Name})
				} else if y.Defined() {
					out = append(out, Pointer{Place: s.Addr + 8*k, To: y.Value})
				}
			}
		}
	}
	return out, nil
}
