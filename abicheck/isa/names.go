package isa

import (
	"math/bits"

	"github.com/thox-ai/thoxbuild/abicheck/isa/a64"
)

// AArch64 code makes an address in two steps, adrp and add or a load with the
// low half, often far apart. names finds which address each instruction of a
// function means, by propagating constants over its blocks: the address that
// a load or store accesses, the value that an adr, adrp or add makes, and
// where an indirect branch goes. 0 is unknown.

// imported marks the content of a slot that an import fills: the rest of the
// value is the address of the slot.
const imported = 1 << 63

// resolved marks a value that is known: the first page of a file is page 0.
const resolved = 1 << 62

// consts are the values of x0 to x30 and sp, 0 for an unknown one.
type consts [32]uint64

// meet keeps what both agree on and reports whether c changed.
func (c *consts) meet(d *consts) (changed bool) {
	for i := range c {
		if c[i] != d[i] && c[i] != 0 {
			c[i], changed = 0, true
		}
	}
	return changed
}

// maxSweeps bounds how often a function is gone over. Values only ever become
// unknown, so a few times are enough but for code that nobody writes.
const maxSweeps = 8

// names returns the meaning of each instruction word of f.
func (im *image) names(f *function) []uint64 {
	if im.named == f.addr && im.namesOf != nil {
		return im.namesOf
	}
	out, ok := im.nameCache[f.addr]
	if !ok {
		out = im.propagate(f)
		if im.nameCache == nil || len(im.nameCache) > maxNameCache {
			im.nameCache = map[uint64][]uint64{}
		}
		im.nameCache[f.addr] = out
	}
	im.named, im.namesOf = f.addr, out
	return out
}

// maxNameCache bounds how many functions keep their names.
const maxNameCache = 1 << 13

func (im *image) propagate(f *function) []uint64 {
	b := im.code(f)
	n := len(b) / 4
	out := make([]uint64, n)
	heads := map[int]*consts{} // what is known where branches lead
	for i := range n {
		if d := a64.Decode(word(b, uint64(4*i))); d.Flow == a64.Cond || d.Flow == a64.Jump {
			if to := i + int(d.Imm/4); to >= 0 && to < n {
				heads[to] = nil
			}
		}
	}
	for range maxSweeps {
		changed := false
		// What leads forward is met in this sweep yet.
		flow := func(from, to int, c *consts) {
			old, ok := heads[to]
			switch {
			case !ok:
			case old == nil:
				k := *c
				heads[to] = &k
				changed = changed || to <= from
			case old.meet(c):
				changed = changed || to <= from
			}
		}
		cur := &consts{}
		live := true
		for i := range n {
			if h, ok := heads[i]; ok {
				if live {
					flow(i-1, i, cur)
					h = heads[i]
				}
				if live = h != nil; live {
					k := *h
					cur = &k
				}
			}
			if !live {
				// Only an indirect jump or a landing pad leads here.
				cur, live = &consts{}, true
			}
			d := a64.Decode(word(b, uint64(4*i)))
			out[i] = im.evaluate(&d, f.addr+uint64(4*i), cur)
			switch d.Flow {
			case a64.Cond:
				flow(i, i+int(d.Imm/4), cur)
			case a64.Jump:
				flow(i, i+int(d.Imm/4), cur)
				live = false
			case a64.JumpReg, a64.Return, a64.Stop:
				live = false
			}
		}
		if !changed {
			break
		}
	}
	return out
}

// evaluate returns what d means, and carries c over it.
func (im *image) evaluate(d *a64.Inst, pc uint64, c *consts) (ref uint64) {
	val := uint64(0)
	at := func(r uint8) (uint64, bool) {
		if r == a64.NoReg {
			return 0, false
		}
		return c[r] &^ resolved, c[r]&resolved != 0
	}
	switch d.Op {
	case a64.ADR, a64.ADRP:
		ref = pc + uint64(d.Imm)
		if d.Op == a64.ADRP {
			ref = pc&^0xfff + uint64(d.Imm)
		}
		val = ref | resolved
	case a64.AddImm:
		if k, ok := at(d.Rn); ok {
			ref = k + uint64(d.Imm)
			val = ref | resolved
		}
	case a64.Move:
		if d.Rm != a64.NoReg {
			val = c[d.Rm]
		}
	case a64.Literal:
		ref = pc + uint64(d.Imm)
		val = im.pointee(ref)
	default:
		if k, ok := at(d.Base); ok && d.Index == a64.NoReg {
			ref = k
			if d.Wback != a64.PostIndex {
				ref += uint64(d.Imm)
			}
			if d.Op == a64.Load && d.Size == 8 && !d.MemWrite {
				val = im.pointee(ref)
			}
		} else if (d.Flow == a64.JumpReg || d.Flow == a64.CallReg) && d.Rn != a64.NoReg {
			ref = c[d.Rn] &^ resolved
		}
	}
	write := d.Write
	if d.Flow == a64.Call || d.Flow == a64.CallReg {
		write |= conventionA64.scratch
	}
	for w := write; w != 0; w &= w - 1 {
		c[bits.TrailingZeros32(w)] = 0
	}
	switch {
	case val == 0:
	case d.Rt != a64.NoReg:
		c[d.Rt] = val
		if d.Rt2 != a64.NoReg {
			c[d.Rt2] = im.pointee(ref + 8)
		}
	case d.Rd != a64.NoReg && d.Rd != a64.SP:
		c[d.Rd] = val
	}
	return ref
}

// pointee is what the pointer at addr holds once the file is loaded.
func (im *image) pointee(addr uint64) uint64 {
	s, ok := im.slots.at(addr)
	switch {
	case !ok:
		return 0
	case s.addr != 0:
		return s.addr | resolved
	case s.name != "":
		return addr | imported
	}
	return 0
}
