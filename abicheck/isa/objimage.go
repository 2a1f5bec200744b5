package isa

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
)

// Where an object's undefined symbols, common symbols and GOT slots lie in its
// image; sections start at sectionBase and stay below.
const (
	sectionBase = 0x10000
	commonBase  = 0x50000000
	externBase  = 0x60000000
	gotBase     = 0x70000000
)

// object is a relocatable file as an image.
type object struct {
	image
	f        *elffile.File // nil for a Mach-O file
	sections []elffile.Section
	syms     []elffile.Symbol
	groups   []elffile.Group
	base     []uint64 // address by section index, 0 for a section without one
	inGroup  []int32  // COMDAT group by section index, -1 for none
	ptrs     []pointer
}

// pointer is a relocation of a whole address in data: an initialiser, a vtable
// entry, a registered callback.
type pointer struct {
	section int    // where it stands
	off     uint64 // in that section
	target  uint64
	sym     uint32
}

// openObject lays out a relocatable file.
func openObject(f *elffile.File) (*object, error) {
	o := &object{f: f, sections: f.Sections}
	o.machine = f.Machine
	o.imports = map[uint64]string{}
	var err error
	if o.syms, err = f.Symbols(); err != nil {
		return nil, err
	}
	if o.groups, err = f.Groups(); err != nil {
		return nil, err
	}
	o.base = make([]uint64, len(f.Sections))
	o.inGroup = make([]int32, len(f.Sections))
	for i := range o.inGroup {
		o.inGroup[i] = -1
	}
	for gi := range o.groups {
		if !o.groups[gi].COMDAT {
			continue
		}
		for _, m := range o.groups[gi].Members {
			if m > 0 && m < len(o.inGroup) {
				o.inGroup[m] = int32(gi)
			}
		}
	}
	next := uint64(sectionBase)
	type span struct{ lo, hi uint64 }
	var rw []span
	left := newBudget(f.Size())
	for i := range f.Sections {
		s := &f.Sections[i]
		if s.Flags&elf.SHF_ALLOC == 0 || s.Flags&elf.SHF_TLS != 0 {
			continue
		}
		next = (next + 63) &^ 63
		o.base[i] = next
		if s.Size > commonBase-next {
			return nil, fmt.Errorf("section %s: too large to lay out", s.Name)
		}
		if s.Flags&elf.SHF_WRITE != 0 {
			rw = append(rw, span{next, next + s.Size})
		}
		if s.Type == elf.SHT_NOBITS {
			next += s.Size + 64
			continue
		}
		if err := left.take(s.Size, s.Name); err != nil {
			return nil, err
		}
		b, err := f.Data(s)
		if err != nil {
			return nil, err
		}
		seg := segment{addr: next, bytes: b, name: s.Name, index: i}
		if s.Flags&elf.SHF_EXECINSTR != 0 {
			o.text = append(o.text, seg)
		} else {
			o.data = append(o.data, seg)
		}
		next += s.Size + 64
	}
	o.peek = o.readData
	o.writable = func(a uint64) bool {
		if a >= commonBase && a < gotBase {
			return true
		}
		for _, s := range rw {
			if a >= s.lo && a < s.hi {
				return true
			}
		}
		return false
	}
	if err := o.relocate(); err != nil {
		return nil, err
	}
	return o, o.discover()
}

// address is where a symbol lies in the image.
func (o *object) address(i uint32) uint64 {
	if int(i) >= len(o.syms) {
		return 0
	}
	s := &o.syms[i]
	switch {
	case s.Undefined():
		return externBase + 64*uint64(i)
	case s.Shndx == uint32(elf.SHN_COMMON):
		return commonBase + 4096*uint64(i)
	}
	if n := s.SectionIndex(); n >= 0 && n < len(o.base) && o.base[n] != 0 {
		return o.base[n] + s.Value
	}
	return 0
}

// relocate applies the relocations that code and initialisers depend on.
func (o *object) relocate() error {
	bySection := o.named()
	left := newBudget(o.f.Size())
	for i := range o.f.Sections {
		rs := &o.f.Sections[i]
		if rs.Type != elf.SHT_RELA && rs.Type != elf.SHT_REL {
			continue
		}
		seg := bySection[int(rs.Info)]
		if seg == nil {
			continue
		}
		if err := left.take(rs.Size, rs.Name); err != nil {
			return err
		}
		relocs, err := o.f.Relocs(rs)
		if err != nil {
			return err
		}
		for _, r := range relocs {
			o.apply(seg, r)
		}
	}
	return nil
}

// named notes what symbols say of imports and CPU features, and returns the
// segments by their sections.
func (o *object) named() map[int]*segment {
	for i := range o.syms {
		if s := &o.syms[i]; s.Undefined() && s.Name != "" {
			o.imports[o.address(uint32(i))] = s.Name
		}
		if s := &o.syms[i]; s.Name != "" && (s.Type == elf.STT_OBJECT || s.Type == elf.STT_NOTYPE || s.Type == elf.STT_COMMON) && stateName(s.Name) {
			if a := o.address(uint32(i)); a != 0 {
				o.state = append(o.state, dataSym{s.Name, a, max(s.Size, 16)})
			}
		}
	}
	bySection := map[int]*segment{}
	for i := range o.text {
		bySection[o.text[i].index] = &o.text[i]
	}
	for i := range o.data {
		bySection[o.data[i].index] = &o.data[i]
	}
	return bySection
}

func (o *object) apply(seg *segment, r elffile.Reloc) {
	s := o.address(r.Symbol)
	if s == 0 {
		return
	}
	place := seg.addr + r.Offset
	put32 := func(v uint64) {
		if r.Offset+4 <= uint64(len(seg.bytes)) {
			binary.LittleEndian.PutUint32(seg.bytes[r.Offset:], uint32(v))
		}
	}
	abs := func() {
		o.ptrs = append(o.ptrs, pointer{seg.index, r.Offset, s + uint64(r.Addend), r.Symbol})
		if r.Offset+8 <= uint64(len(seg.bytes)) {
			binary.LittleEndian.PutUint64(seg.bytes[r.Offset:], s+uint64(r.Addend))
		}
		o.slots.set(place, o.slotOf(r.Symbol, s+uint64(r.Addend)))
	}
	if o.machine == elf.EM_AARCH64 {
		if typ := elf.R_AARCH64(r.Type); typ == elf.R_AARCH64_ABS64 {
			abs()
		} else {
			o.applyA64(seg, typ, r.Offset, s, r.Addend, r.Symbol)
		}
		return
	}
	switch elf.R_X86_64(r.Type) {
	case elf.R_X86_64_PC32, elf.R_X86_64_PLT32:
		put32(s + uint64(r.Addend) - place)
	case elf.R_X86_64_32, elf.R_X86_64_32S:
		put32(s + uint64(r.Addend))
	case elf.R_X86_64_64:
		abs()
	case elf.R_X86_64_GOTPCREL, elf.R_X86_64_GOTPCRELX, elf.R_X86_64_REX_GOTPCRELX:
		got := gotBase + 8*uint64(r.Symbol)
		o.slots.set(got, o.slotOf(r.Symbol, s))
		put32(got + uint64(r.Addend) - place)
	}
}

func (o *object) slotOf(sym uint32, addr uint64) slot {
	if o.syms[sym].Undefined() {
		return slot{name: o.syms[sym].Name}
	}
	return slot{addr: addr}
}

// discover finds the functions of the executable sections.
func (o *object) discover() error {
	o.symbol = func(sym int32, _ bool) string { return o.syms[sym].Name }
	segOf := map[int]int{}
	for i := range o.text {
		segOf[o.text[i].index] = i
	}
	starts := make([]start, 0, len(o.syms))
	for i := range o.syms {
		s := &o.syms[i]
		seg, ok := segOf[s.SectionIndex()]
		if !ok || s.Value >= uint64(len(o.text[seg].bytes)) || s.Name == "" {
			continue
		}
		code := s.Type == elf.STT_FUNC || s.Type == elf.STT_GNU_IFUNC || s.Type == elf.STT_NOTYPE && s.Bind != elf.STB_LOCAL
		if !code {
			continue
		}
		starts = append(starts, start{
			addr: o.text[seg].addr + s.Value, size: s.Size, seg: int32(seg), sym: int32(i),
			group: o.inGroup[o.text[seg].index], bind: s.Bind, typ: s.Type, vis: s.Vis, flags: outlined(s.Name),
		})
	}
	if err := o.cut(starts, nil); err != nil {
		return err
	}
	if o.machine != machineX86 {
		var marks []mark
		for i := range o.syms {
			if seg, ok := segOf[o.syms[i].SectionIndex()]; ok {
				marks = appendMark(marks, &o.syms[i], o.text[seg].addr+o.syms[i].Value)
			}
		}
		o.mark(marks)
	}
	for i := range o.fns {
		if f := &o.fns[i]; f.pseudo {
			f.group = o.inGroup[o.text[f.seg].index]
		}
	}
	return nil
}

// place translates an address of the image back to section and offset.
func (o *object) place(addr uint64) (section string, off uint64) {
	if i := o.segmentAt(addr); i >= 0 {
		return o.text[i].name, addr - o.text[i].addr
	}
	return "", addr
}

// initialisers are the pointers that a loader calls: constructors and
// destructors of the object's own.
func (o *object) initialisers() []pointer {
	var out []pointer
	for _, p := range o.ptrs {
		name := o.sections[p.section].Name
		switch typ := o.sections[p.section].Type; {
		case typ == elf.SHT_INIT_ARRAY, typ == elf.SHT_FINI_ARRAY, typ == elf.SHT_PREINIT_ARRAY,
			strings.HasPrefix(name, ".ctors"), strings.HasPrefix(name, ".dtors"),
			strings.HasPrefix(name, ".init_array"), strings.HasPrefix(name, ".fini_array"):
			out = append(out, p)
		}
	}
	return out
}

// weak reports whether a linker may take this function from another object.
func (o *object) weak(f *function) bool {
	return f.group >= 0 || f.bind == elf.STB_WEAK || f.bind == elf.STB_LOOS || // STB_GNU_UNIQUE
		strings.HasPrefix(o.text[f.seg].name, ".gnu.linkonce")
}

// unit is the name under which a linker unifies f: its group's signature, or
// its own name.
func (o *object) unit(f *function) string {
	if f.group >= 0 {
		return o.groups[f.group].Signature
	}
	return o.name(f)
}

// poisoned lists the non-local symbols of a COMDAT group, sorted.
func (o *object) poisoned(group int32) []string {
	var out []string
	for i := range o.syms {
		s := &o.syms[i]
		if n := s.SectionIndex(); n > 0 && n < len(o.inGroup) && o.inGroup[n] == group && s.Bind != elf.STB_LOCAL && s.Name != "" {
			out = append(out, s.Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// readData copies data at an address of the image.
func (o *object) readData(b []byte, addr uint64) error {
	for i := range o.data {
		if s := &o.data[i]; addr >= s.addr && addr-s.addr < uint64(len(s.bytes)) {
			clear(b[copy(b, s.bytes[addr-s.addr:]):])
			return nil
		}
	}
	return fmt.Errorf("no data at 0x%x", addr)
}
