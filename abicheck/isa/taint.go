package isa

// slotBit is the bit of the stack slot at off behind the stack pointer at entry.
func (x *explorer) slotBit(off int32) (uint64, bool) {
	n, ok := x.slots[off]
	if !ok {
		if len(x.slots) >= 64 {
			return 0, false
		}
		n = uint8(len(x.slots))
		x.slots[off] = n
		x.offsets = append(x.offsets, off)
	}
	return 1 << n, true
}

// step carries st over an instruction that does not branch.
func (x *explorer) step(in *insn, pc uint64, st *state, s *summary) {
	if x.w.im.machine != machineX86 {
		x.stepA64(in, st, s)
		return
	}
	x.stepX86(&in.x86, pc, st, s)
}

// spoil taints what an instruction writes.
func (x *explorer) spoil(in *insn, pc uint64, st *state, s *summary) {
	if x.w.im.machine != machineX86 {
		x.spoilA64(in, st, s)
		return
	}
	x.spoilX86(&in.x86, pc, st, s)
}

func (st *state) set(regs uint32, t bool) {
	if t {
		st.regs |= regs
	} else {
		st.regs &^= regs
	}
}

// changes tells which general and vector registers in writes, and whether it
// writes memory.
func (x *explorer) changes(in *insn) (regs, vecs uint32, mem bool) {
	if x.w.im.machine != machineX86 {
		return x.writesA64(&in.a64)
	}
	return x.writesX86(&in.x86)
}
