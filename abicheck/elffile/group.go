package elffile

import "debug/elf"

// Group is a section group of a relocatable file. A linker keeps one COMDAT
// group per signature in the whole link and drops the others with all their
// sections, whatever the binding of the symbols inside.
type Group struct {
	// Signature is the name that decides which groups are the same. For a
	// section symbol it is the section's name.
	Signature string
	// Symbol is the index of the signature's symbol in the symbol table.
	Symbol int
	COMDAT bool
	// Section is the index of the SHT_GROUP section itself.
	Section int
	// Members are the indices of the sections in the group.
	Members []int
}

// Groups returns the section groups in file order.
func (f *File) Groups() ([]Group, error) {
	var groups []Group
	left := uint64(f.src.Size) // bytes that all groups may have together
	var syms []Symbol
	for i := range f.Sections {
		s := &f.Sections[i]
		if s.Type != elf.SHT_GROUP {
			continue
		}
		if s.Size > left || s.Size < 4 || s.Size%4 != 0 {
			return nil, formatErr(int64(s.Offset), "section group %d of %d bytes", i, s.Size)
		}
		left -= s.Size
		b, err := f.Data(s)
		if err != nil {
			return nil, err
		}
		if syms == nil {
			if syms, err = f.Symbols(); err != nil {
				return nil, err
			}
		}
		c := f.cursor(b)
		g := Group{COMDAT: c.u32()&1 != 0, Section: i, Symbol: int(s.Info)}
		if s.Info >= uint32(len(syms)) {
			return nil, formatErr(int64(s.Offset), "section group %d is named by symbol %d of %d", i, s.Info, len(syms))
		}
		sym := &syms[s.Info]
		g.Signature = sym.Name
		if sym.Name == "" && sym.Type == elf.STT_SECTION {
			if sec := f.Section(sym.SectionIndex()); sec != nil {
				g.Signature = sec.Name
			}
		}
		for range s.Size/4 - 1 {
			m := c.u32()
			if m == 0 || m >= uint32(len(f.Sections)) {
				return nil, formatErr(int64(s.Offset), "section group %s holds section %d of %d", g.Signature, m, len(f.Sections))
			}
			g.Members = append(g.Members, int(m))
		}
		groups = append(groups, g)
	}
	return groups, nil
}
