package machofile

// Reloc is one relocation of a section of an object.
type Reloc struct {
	Off uint32 // in the section
	// Symbol is the index in Symbols, -1 where the relocation names none: then
	// what stands at the place holds an address of this object.
	Symbol int
	// Num is the number as the file has it: a symbol, a section or an addend.
	Num    uint32
	PCRel  bool
	Length uint8 // log2 of the bytes
	Type   uint8
}

// Types of relocations, as the processors number them.
const (
	RelocUnsigned   = 0 // both
	X86Signed       = 1
	X86Branch       = 2
	X86GOTLoad      = 3
	X86GOT          = 4
	X86Subtractor   = 5
	X86Signed1      = 6
	X86Signed2      = 7
	X86Signed4      = 8
	X86TLV          = 9
	ARM64Subtractor = 1
	ARM64Branch26   = 2
	ARM64Page21     = 3
	ARM64PageOff12  = 4
	ARM64GOTPage21  = 5
	ARM64GOTOff12   = 6
	ARM64TLVPage21  = 8
	ARM64TLVOff12   = 9
	ARM64Addend     = 10
)

// Relocs calls do for each relocation of a section, in the order of the file.
// The scattered form, which only 32-bit processors use, is left out.
func (f *File) Relocs(s *Section, do func(Reloc)) error {
	if s.NReloc == 0 {
		return nil
	}
	syms, err := f.symsFn()
	if err != nil {
		return err
	}
	b, err := f.span(Span{s.RelOff, 8 * uint64(s.NReloc)}, "relocations of section "+s.Name)
	if err != nil {
		return err
	}
	for ; len(b) >= 8; b = b[8:] {
		at, w := f.Order.Uint32(b), f.Order.Uint32(b[4:])
		if at&0x80000000 != 0 {
			continue
		}
		r := Reloc{Off: at, Symbol: -1, Num: w & 0xffffff, PCRel: w>>24&1 != 0, Length: uint8(w >> 25 & 3), Type: uint8(w >> 28)}
		if w>>27&1 != 0 {
			if uint64(r.Num) >= uint64(len(syms.place)) {
				return formatErr(int64(s.RelOff), "a relocation of section %s names symbol %d of %d", s.Name, r.Num, len(syms.place))
			}
			r.Symbol = int(syms.place[r.Num])
		}
		do(r)
	}
	return nil
}

// Common reports whether the symbol is a common one: data that the linker
// makes room for.
func (s *Symbol) Common() bool { return s.Type&nType == nUndef && s.Value != 0 && s.Type&nExt != 0 }
