package isa

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
	"github.com/thox-ai/thoxbuild/abicheck/machofile"
)

// openMachObject lays out a Mach-O object as if it were one of ELF. Its
// sections have addresses already, which references within it rely on, so all
// move together. What ELF calls a weak function in a COMDAT group of its own
// is here a weak definition; the linker keeps one by its name.
func openMachObject(f *machofile.File) (*object, error) {
	o := &object{}
	o.machine, o.macho = machMachine(f), true
	o.imports = map[uint64]string{}
	var rw []span
	var relocated []*machofile.Section
	o.sections = make([]elffile.Section, 1)
	left := newBudget(f.Size())
	for i := range f.Segments {
		for j := range f.Segments[i].Sections {
			s := &f.Segments[i].Sections[j]
			if s.Addr > commonBase-sectionBase || s.Size > commonBase-sectionBase-s.Addr {
				return nil, fmt.Errorf("section %s: too large to lay out", s.Name)
			}
			n, addr := len(o.sections), sectionBase+s.Addr
			o.sections = append(o.sections, machSection(s))
			b, err := f.Data(s)
			if err != nil {
				return nil, err
			}
			if err := left.take(uint64(len(b))+8*uint64(s.NReloc), s.Name); err != nil {
				return nil, err
			}
			seg := segment{addr: addr, bytes: b, name: s.Name, index: n}
			switch {
			case s.Code():
				o.text = append(o.text, seg)
			case b != nil:
				o.data = append(o.data, seg)
			}
			if s.Segment == "__DATA" && s.Name != "__const" && o.sections[n].Type == elf.SHT_PROGBITS {
				rw = append(rw, span{addr, s.Size})
			}
			relocated = append(relocated, s)
		}
	}
	o.inGroup = slices.Repeat([]int32{-1}, len(o.sections))
	o.base = make([]uint64, len(o.sections))
	for n := 1; n < len(o.base); n++ {
		o.base[n] = sectionBase + o.sections[n].Addr
	}
	o.peek = o.readData
	o.writable = func(a uint64) bool {
		return a >= commonBase && a < gotBase || slices.ContainsFunc(rw, func(s span) bool { return a-s.addr < s.size })
	}
	if err := o.machSymbols(f); err != nil {
		return nil, err
	}
	bySection := o.named()
	for i, s := range relocated {
		if seg := bySection[i+1]; seg != nil {
			if err := o.machRelocate(f, s, seg); err != nil {
				return nil, err
			}
		}
	}
	if err := o.discover(); err != nil {
		return nil, err
	}
	data, err := f.DataInCode()
	if err != nil {
		return nil, err
	}
	for _, r := range data {
		o.literals = append(o.literals, span{sectionBase + r.Addr, r.Size})
	}
	return o, nil
}

// machSection says what a section is in the words of ELF.
func machSection(s *machofile.Section) elffile.Section {
	e := elffile.Section{Name: s.Name, Type: elf.SHT_PROGBITS, Addr: s.Addr, Size: s.Size}
	switch s.Type() {
	case machofile.InitPointers:
		e.Type = elf.SHT_INIT_ARRAY
	case machofile.TermPointers:
		e.Type = elf.SHT_FINI_ARRAY
	}
	return e
}

// machSymbols translates the symbols, so that indices stay.
func (o *object) machSymbols(f *machofile.File) error {
	syms, err := f.Symbols()
	if err != nil {
		return err
	}
	code := map[int]bool{}
	for i := range o.text {
		code[o.text[i].index] = true
	}
	o.syms = make([]elffile.Symbol, len(syms))
	for i := range syms {
		y, e := &syms[i], &o.syms[i]
		e.Name = strings.TrimPrefix(y.Name, "_")
		switch {
		case !y.External():
			e.Bind = elf.STB_LOCAL
		case y.WeakDef():
			e.Bind = elf.STB_WEAK
		default:
			e.Bind = elf.STB_GLOBAL
		}
		if y.PrivateExternal() {
			e.Vis = elf.STV_HIDDEN
		}
		n := int(y.Sect)
		switch {
		case y.Common():
			e.Shndx, e.Size, e.Type = uint32(elf.SHN_COMMON), y.Value, elf.STT_OBJECT
		case !y.Defined() && !y.Undefined():
			e.Shndx = uint32(elf.SHN_ABS)
		case y.Defined() && n > 0 && n < len(o.sections):
			e.Shndx, e.Value = uint32(n), y.Value-o.sections[n].Addr
			switch {
			case !code[n]:
				e.Type = elf.STT_OBJECT
			case y.External() || strings.HasPrefix(y.Name, "_"):
				e.Type = elf.STT_FUNC // other names are labels: ltmp0, Lpost
			}
		case y.Defined():
			return fmt.Errorf("symbol %s: in section %d of %d", e.Name, n, len(o.sections)-1)
		}
	}
	return nil
}

// machRelocate applies the relocations of one section.
func (o *object) machRelocate(f *machofile.File, s *machofile.Section, seg *segment) error {
	x86 := o.machine == machineX86
	subtracted := false // the next one is a difference
	addend := int64(0)
	return f.Relocs(s, func(r machofile.Reloc) {
		if !x86 && r.Type == machofile.ARM64Addend {
			addend = int64(int32(r.Num<<8) >> 8)
			return
		}
		skip, more := subtracted, addend
		subtracted, addend = x86 && r.Type == machofile.X86Subtractor || !x86 && r.Type == machofile.ARM64Subtractor, 0
		switch {
		case skip || subtracted:
		case r.Type == machofile.RelocUnsigned:
			o.machPointer(seg, r)
		case r.Symbol < 0: // within this object: everything moves together
		case x86:
			o.machX86(seg, r)
		default:
			o.machA64(seg, r, more)
		}
	})
}

// machPointer is a whole address in data.
func (o *object) machPointer(seg *segment, r machofile.Reloc) {
	at := uint64(r.Off)
	if r.Length != 3 || at+8 > uint64(len(seg.bytes)) {
		return
	}
	to := binary.LittleEndian.Uint64(seg.bytes[at:])
	var sym uint32
	v := slot{}
	if r.Symbol >= 0 {
		sym = uint32(r.Symbol)
		s := o.address(sym)
		if s == 0 {
			return
		}
		to += s
		v = o.slotOf(sym, to)
	} else {
		to += sectionBase
		v.addr = to
	}
	binary.LittleEndian.PutUint64(seg.bytes[at:], to)
	o.ptrs = append(o.ptrs, pointer{seg.index, at, to, sym})
	o.slots.set(seg.addr+at, v)
}

// machX86 is a reference of code. What stands there is added to it, and holds
// how many bytes of the instruction follow.
func (o *object) machX86(seg *segment, r machofile.Reloc) {
	s, at := o.address(uint32(r.Symbol)), uint64(r.Off)
	if s == 0 || at+4 > uint64(len(seg.bytes)) {
		return
	}
	switch r.Type {
	case machofile.X86Signed, machofile.X86Signed1, machofile.X86Signed2, machofile.X86Signed4, machofile.X86Branch:
	case machofile.X86GOTLoad, machofile.X86GOT, machofile.X86TLV:
		got := gotBase + 8*uint64(r.Symbol)
		o.slots.set(got, o.slotOf(uint32(r.Symbol), s))
		s = got
	default:
		return
	}
	v := s + uint64(int64(int32(word(seg.bytes, at)))) - (seg.addr + at + 4)
	binary.LittleEndian.PutUint32(seg.bytes[at:], uint32(v))
}

// machA64 is a reference of code, in the words of ELF.
func (o *object) machA64(seg *segment, r machofile.Reloc, addend int64) {
	s, at := o.address(uint32(r.Symbol)), uint64(r.Off)
	if s == 0 || at+4 > uint64(len(seg.bytes)) {
		return
	}
	var typ elf.R_AARCH64
	switch r.Type {
	case machofile.ARM64Branch26:
		typ = elf.R_AARCH64_CALL26
	case machofile.ARM64Page21:
		typ = elf.R_AARCH64_ADR_PREL_PG_HI21
	case machofile.ARM64PageOff12:
		typ = lowHalf(word(seg.bytes, at))
	case machofile.ARM64GOTPage21, machofile.ARM64TLVPage21:
		typ = elf.R_AARCH64_ADR_GOT_PAGE
	case machofile.ARM64GOTOff12, machofile.ARM64TLVOff12:
		typ = elf.R_AARCH64_LD64_GOT_LO12_NC
	default:
		return
	}
	o.applyA64(seg, typ, at, s, addend, uint32(r.Symbol))
}

// lowHalf is how the instruction w holds the low half of an address: a load or
// store in units of what it moves, an addition in bytes.
func lowHalf(w uint32) elf.R_AARCH64 {
	if w&0x3b000000 != 0x39000000 {
		return elf.R_AARCH64_ADD_ABS_LO12_NC
	}
	switch w >> 30 {
	case 1:
		return elf.R_AARCH64_LDST16_ABS_LO12_NC
	case 2:
		return elf.R_AARCH64_LDST32_ABS_LO12_NC
	case 3:
		return elf.R_AARCH64_LDST64_ABS_LO12_NC
	}
	if w&0x04800000 == 0x04800000 {
		return elf.R_AARCH64_LDST128_ABS_LO12_NC
	}
	return elf.R_AARCH64_LDST8_ABS_LO12_NC
}
