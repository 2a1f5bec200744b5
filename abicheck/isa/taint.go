package isa

import "github.com/thox-ai/thoxbuild/abicheck/isa/x86"

// slot returns the bit of the stack slot that in addresses.
func (x *explorer) slot(in *x86.Inst, st *state) (uint64, bool) {
	if !in.Mem() || in.Index != x86.NoReg {
		return 0, false
	}
	var off int32
	switch {
	case in.Base == 4:
		off = st.sp + in.Disp
	case in.Base == 5 && st.framed:
		off = st.bp + in.Disp
	default:
		return 0, false
	}
	return x.slotBit(off)
}

func (x *explorer) slotBit(off int32) (uint64, bool) {
	n, ok := x.slots[off]
	if !ok {
		if len(x.slots) >= 64 {
			return 0, false
		}
		n = uint8(len(x.slots))
		x.slots[off] = n
	}
	return 1 << n, true
}

// loaded reports whether the memory operand of in holds a CPU test.
func (x *explorer) loaded(in *x86.Inst, pc uint64, st *state) bool {
	if to, rip := in.RIPTarget(pc); rip {
		if x.w.d.has(to) {
			return true
		}
		if s, ok := x.w.im.slots[to]; ok {
			return s.name != "" && stateName(s.name) || s.addr != 0 && x.w.d.has(s.addr)
		}
		return false
	}
	if bit, ok := x.slot(in, st); ok {
		return st.slots&bit != 0
	}
	return in.Base != x86.NoReg && st.regs>>(in.Base&31)&1 != 0 ||
		in.Index != x86.NoReg && st.regs>>(in.Index&31)&1 != 0
}

// step carries st over an instruction that does not branch.
func (x *explorer) step(in *insn, pc uint64, st *state) {
	if x.w.im.machine != machineX86 {
		x.stepA64(in, st)
		return
	}
	x.stepX86(&in.x86, pc, st)
}

// spoil taints what an instruction writes.
func (x *explorer) spoil(in *insn, pc uint64, st *state) {
	if x.w.im.machine != machineX86 {
		x.spoilA64(in, st)
		return
	}
	x.spoilX86(&in.x86, pc, st)
}

func (x *explorer) spoilX86(in *x86.Inst, pc uint64, st *state) {
	e := in.Effects()
	st.regs |= e.Write &^ x.w.abi.frame
	if e.MemWrite && in.Mem() {
		if to, rip := in.RIPTarget(pc); rip && x.w.store != nil {
			x.w.store(to, 8)
		}
		if bit, ok := x.slot(in, st); ok {
			st.slots |= bit
		}
	}
}

func (x *explorer) stepX86(in *x86.Inst, pc uint64, st *state) {
	if in.Enc == x86.EncLegacy || in.Enc == x86.EncREX2 {
		if x.stack(in, st) {
			return
		}
		if in.Map == 1 && (in.Op == 0xa2 || in.Op == 0x01 && in.ModRM == 0xd0) {
			st.regs |= 1<<0 | 1<<2
			if in.Op == 0xa2 {
				st.regs |= 1<<1 | 1<<3
			}
			return
		}
		if in.Map == 0 {
			switch in.Op {
			case 0x30, 0x31, 0x32, 0x33, 0x28, 0x29, 0x2a, 0x2b: // xor r,r and sub r,r
				if !in.Mem() && in.Reg == in.RM {
					st.regs &^= 1 << (in.Reg & 31)
					st.flags = false
					return
				}
			case 0x8d:
				t := false
				if to, rip := in.RIPTarget(pc); rip {
					t = x.w.d.has(to)
				} else {
					t = in.Base != x86.NoReg && st.regs>>(in.Base&31)&1 != 0 || in.Index != x86.NoReg && st.regs>>(in.Index&31)&1 != 0
				}
				st.set(1<<(in.Reg&31), t)
				return
			}
		}
	}
	e := in.Effects()
	t := e.FlagRead && st.flags
	if e.MemRead && in.Mem() {
		t = t || x.loaded(in, pc, st)
	}
	read := e.Read
	if in.Mem() {
		// Address registers are no source of the value that is stored.
		if in.Base != x86.NoReg {
			read &^= 1 << (in.Base & 31)
		}
		if in.Index != x86.NoReg {
			read &^= 1 << (in.Index & 31)
		}
		if in.Flags&x86.HasModRM != 0 && e.MemWrite {
			read |= e.Read & (1 << (in.Reg & 31))
		}
	}
	t = t || st.regs&read != 0
	st.set(e.Write, t)
	if e.FlagWrite {
		st.flags = t
	}
	if e.MemWrite && in.Mem() {
		if to, rip := in.RIPTarget(pc); rip {
			if t && x.w.store != nil {
				x.w.store(to, 8)
			}
		} else if bit, ok := x.slot(in, st); ok {
			if t {
				st.slots |= bit
			} else {
				st.slots &^= bit
			}
		}
	}
}

func (st *state) set(regs uint32, t bool) {
	if t {
		st.regs |= regs
	} else {
		st.regs &^= regs
	}
}

// stack handles what moves the stack or frame pointer; it reports whether the
// instruction is done with.
func (x *explorer) stack(in *x86.Inst, st *state) bool {
	if in.Map != 0 {
		return false
	}
	op := in.Op
	switch {
	case op >= 0x50 && op <= 0x57:
		st.sp -= 8
		if bit, ok := x.slotBit(st.sp); ok {
			if st.regs>>(op&7|in.Reg)&1 != 0 {
				st.slots |= bit
			} else {
				st.slots &^= bit
			}
		}
		return true
	case op >= 0x58 && op <= 0x5f:
		r := op&7 | in.Reg
		bit, ok := x.slotBit(st.sp)
		st.set(1<<(r&31), ok && st.slots&bit != 0)
		if r == 5 {
			st.framed = false
		}
		st.sp += 8
		return true
	case op == 0x68 || op == 0x6a:
		st.sp -= 8
		return true
	case (op == 0x81 || op == 0x83) && !in.Mem() && in.RM == 4:
		switch in.ModRM >> 3 & 7 {
		case 0:
			st.sp += int32(in.Imm)
		case 5:
			st.sp -= int32(in.Imm)
		}
		return true
	case op == 0x89 && !in.Mem() && in.Reg == 4 && in.RM == 5:
		st.bp, st.framed = st.sp, true
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
