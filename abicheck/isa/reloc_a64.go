package isa

import (
	"debug/elf"
	"encoding/binary"
)

// patchA64 writes the value v of a relocation at place into the instruction w.
// ok is false for a relocation that code analysis does not need.
func patchA64(typ elf.R_AARCH64, w uint32, v, place uint64) (patched uint32, ok bool) {
	field := func(bits, at int, n uint64) uint32 {
		mask := uint32(1)<<bits - 1
		return w&^(mask<<at) | uint32(n)&mask<<at
	}
	pages := (v&^0xfff - place&^0xfff) >> 12
	switch typ {
	case elf.R_AARCH64_CALL26, elf.R_AARCH64_JUMP26:
		return field(26, 0, (v-place)>>2), true
	case elf.R_AARCH64_CONDBR19, elf.R_AARCH64_LD_PREL_LO19:
		return field(19, 5, (v-place)>>2), true
	case elf.R_AARCH64_TSTBR14:
		return field(14, 5, (v-place)>>2), true
	case elf.R_AARCH64_ADR_PREL_LO21:
		w = field(19, 5, (v-place)>>2)
		return field(2, 29, v-place), true
	case elf.R_AARCH64_ADR_PREL_PG_HI21, elf.R_AARCH64_ADR_PREL_PG_HI21_NC, elf.R_AARCH64_ADR_GOT_PAGE:
		w = field(19, 5, pages>>2)
		return field(2, 29, pages), true
	case elf.R_AARCH64_ADD_ABS_LO12_NC, elf.R_AARCH64_LDST8_ABS_LO12_NC:
		return field(12, 10, v&0xfff), true
	case elf.R_AARCH64_LDST16_ABS_LO12_NC:
		return field(12, 10, v&0xfff>>1), true
	case elf.R_AARCH64_LDST32_ABS_LO12_NC:
		return field(12, 10, v&0xfff>>2), true
	case elf.R_AARCH64_LDST64_ABS_LO12_NC, elf.R_AARCH64_LD64_GOT_LO12_NC:
		return field(12, 10, v&0xfff>>3), true
	case elf.R_AARCH64_LDST128_ABS_LO12_NC:
		return field(12, 10, v&0xfff>>4), true
	}
	return w, false
}

// applyA64 applies one relocation against the symbol at s.
func (o *object) applyA64(seg *segment, typ elf.R_AARCH64, off, s uint64, addend int64, sym uint32) {
	v := s + uint64(addend)
	switch typ {
	case elf.R_AARCH64_CALL26, elf.R_AARCH64_JUMP26, elf.R_AARCH64_CONDBR19, elf.R_AARCH64_TSTBR14:
		if o.branches == nil {
			o.branches = map[uint64]uint64{}
		}
		o.branches[seg.addr+off] = v
	case elf.R_AARCH64_ADR_GOT_PAGE, elf.R_AARCH64_LD64_GOT_LO12_NC:
		v = gotBase + 8*uint64(sym)
		o.slots.set(v, o.slotOf(sym, s))
	}
	if off+4 > uint64(len(seg.bytes)) {
		return
	}
	if w, ok := patchA64(typ, word(seg.bytes, off), v, seg.addr+off); ok {
		binary.LittleEndian.PutUint32(seg.bytes[off:], w)
	}
}
