package isa

import "github.com/thox-ai/thoxbuild/abicheck/isa/x86"

func addressRegs(in *x86.Inst) (set uint32) {
	if in.Mem() && in.Base != x86.NoReg {
		set |= 1 << (in.Base & 31)
	}
	if in.Mem() && in.Index != x86.NoReg {
		set |= 1 << (in.Index & 31)
	}
	return set
}

// stackX86 handles what moves the stack or frame pointer; it reports whether
// the instruction is done with.
func (x *explorer) stackX86(in *x86.Inst, st *state) bool {
	op := in.Op
	switch {
	case op >= 0x50 && op <= 0x57:
		r := (op&7 | in.Reg) & 31
		st.sp -= 8
		x.stored(value{kind: stackAddress, n: int64(st.sp)}, 8, st.regs>>r&1 != 0, x.reg(st, r), st, nil)
		return true
	case op >= 0x58 && op <= 0x5f:
		r := (op&7 | in.Reg) & 31
		var t bool
		var v value
		if n, ok := x.slots[st.sp]; ok {
			t = st.slots>>n&1 != 0
			v = x.valueAt(st.slotKnown[n])
		}
		st.set(1<<r, t)
		x.setReg(st, r, v)
		if r == 5 {
			st.framed = false
		}
		st.sp += 8
		return true
	case op == 0x68 || op == 0x6a:
		st.sp -= 8
		x.stored(value{kind: stackAddress, n: int64(st.sp)}, 8, false, known(in.Imm, 8), st, nil)
		return true
	case (op == 0x81 || op == 0x83) && !in.Mem() && in.RM == 4:
		switch in.ModRM >> 3 & 7 {
		case 0:
			st.sp += int32(in.Imm)
		case 5:
			st.sp -= int32(in.Imm)
		}
		st.flags, st.cmp = false, 0
		return true
	case op == 0x89 && !in.Mem() && in.Reg == 4 && in.RM == 5,
		op == 0x8b && !in.Mem() && in.RM == 4 && in.Reg == 5:
		st.bp, st.framed = st.sp, true
		return true
	case op == 0x89 && !in.Mem() && in.Reg == 5 && in.RM == 4 && st.framed:
		st.sp = st.bp
		return true
	case op == 0x8d && in.Reg == 4 && in.Base == 4 && in.Index == x86.NoReg:
		st.sp += in.Disp
		return true
	case op == 0x8d && in.Reg == 4 && in.Base == 5 && st.framed:
		st.sp = st.bp + in.Disp
		return true
	case op == 0xc9:
		if st.framed {
			st.sp = st.bp + 8
			st.framed = false
		}
		return true
	}
	return false
}

func (x *explorer) valueAt(id uint8) value {
	if id == 0 {
		return value{}
	}
	return x.values[id]
}

// writesX86 tells which general and vector registers in writes, and whether it
// writes memory.
func (x *explorer) writesX86(in *x86.Inst) (regs, vecs uint32, mem bool) {
	e := in.Effects()
	regs = e.Write &^ x.w.abi.frame
	if in.Flow == x86.FlowCall || in.Flow == x86.FlowCallInd {
		regs |= x.w.abi.result
	}
	if in.Flags&x86.HasModRM != 0 && in.Map > 0 && e.Write == 0 && !e.MemWrite {
		vecs = 1 << (in.Reg & 31)
	}
	return regs, vecs, e.MemWrite && in.Mem()
}

// spoilX86 taints what an instruction between a CPU test and the place where
// its arms meet writes.
func (x *explorer) spoilX86(in *x86.Inst, pc uint64, st *state, s *summary) {
	regs, vecs, mem := x.writesX86(in)
	st.regs |= regs
	st.vecs |= vecs
	st.forget(regs)
	st.cmp = 0
	if !mem {
		return
	}
	v := x.place(in, pc, st)
	if v.kind == stackAddress || x.small() {
		x.deposit(v, 8, st, s)
	}
	if v.kind == stackAddress && v.n != somewhere {
		if n, ok := x.slots[int32(v.n)]; ok {
			st.slotKnown[n] = 0
		}
	}
}
