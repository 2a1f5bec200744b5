package isa

import "github.com/thox-ai/thoxbuild/abicheck/isa/x86"

// width is the operand size of in, in bytes, for the forms whose lowest opcode
// bit tells bytes from words.
func width(in *x86.Inst, byteOp bool) uint8 {
	switch {
	case byteOp:
		return 1
	case in.Flags&x86.WideW != 0:
		return 8
	case in.Flags&x86.OpSize16 != 0:
		return 2
	}
	return 4
}

// fit cuts a value to what width bytes of it tell.
func fit(v value, w uint8) value {
	switch v.kind {
	case unknownValue:
		return v
	case constant:
		if v.width < w {
			return value{}
		}
		v.width = w
		v.n &= 1<<(8*uint(w)) - 1
		if w == 8 {
			return v
		}
		return v
	default:
		if w < 8 {
			return value{}
		}
		return v
	}
}

// known is a constant of w bytes.
func known(n int64, w uint8) value {
	if w < 8 {
		n &= 1<<(8*uint(w)) - 1
	}
	return value{kind: constant, n: n, width: w}
}

func (x *explorer) highByte(in *x86.Inst, n uint8, byteOp bool) bool {
	return byteOp && in.Flags&x86.HasREX == 0 && n >= 4 && n < 8
}

// stepX86 carries st over an instruction that does not branch.
func (x *explorer) stepX86(in *x86.Inst, pc uint64, st *state, s *summary) {
	if in.Enc != x86.EncLegacy && in.Enc != x86.EncREX2 {
		x.stepVector(in, pc, st, s)
		return
	}
	if in.Map == 0 && (x.stackX86(in, st) || x.move(in, pc, st, s) || x.arith(in, pc, st, s)) {
		return
	}
	if in.Map == 1 {
		switch op := in.Op; {
		case op == 0xa2 || op == 0x01 && in.ModRM == 0xd0: // cpuid, xgetbv
			regs := uint32(1<<0 | 1<<2)
			if op == 0xa2 {
				regs |= 1<<1 | 1<<3
			}
			st.regs |= regs
			st.forget(regs)
			return
		case op == 0xb6 || op == 0xb7 || op == 0xbe || op == 0xbf: // movzx, movsx
			w := uint8(1 + op&1)
			t, v := x.source(in, pc, w, st, s)
			v = fit(v, w)
			if v.kind == constant {
				if op >= 0xbe {
					v.n = v.n << (64 - 8*w) >> (64 - 8*w)
				}
				v = known(v.n, width(in, false))
			}
			st.set(1<<(in.Reg&31), t)
			x.setReg(st, in.Reg, wide(v))
			return
		case op >= 0x90 && op <= 0x9f: // setcc
			v := value{}
			if yes, ok := st.decide(op & 15); ok {
				v = known(0, 1)
				if yes {
					v = known(1, 1)
				}
			}
			if in.Mem() {
				x.stored(x.place(in, pc, st), 1, st.flags, v, st, s)
			} else if x.highByte(in, in.RM, true) {
				st.regs |= boolBit(st.flags, in.RM-4)
				st.known[in.RM-4] = 0
			} else {
				st.set(1<<(in.RM&31), st.flags)
				x.setReg(st, in.RM, v)
			}
			return
		case op >= 0x10 && op <= 0x17, op >= 0x28 && op <= 0x2f, op >= 0x50 && op <= 0x7f, op >= 0xc2 && op <= 0xc6 && op != 0xc3, op >= 0xd0:
			x.stepVector(in, pc, st, s)
			return
		}
	} else if in.Map >= 2 {
		x.stepVector(in, pc, st, s)
		return
	}
	x.other(in, pc, st, s)
}

func boolBit(t bool, n uint8) uint32 {
	if t {
		return 1 << (n & 31)
	}
	return 0
}

// wide is what a 64-bit register holds after a write of v: a write of four
// bytes clears the upper half.
func wide(v value) value {
	if v.kind == constant && v.width == 4 {
		v.width = 8
	}
	return v
}

// other handles everything else by what the instruction reads and writes.
func (x *explorer) other(in *x86.Inst, pc uint64, st *state, s *summary) {
	e := in.Effects()
	t := e.FlagRead && st.flags
	var at value
	if in.Mem() {
		at = x.place(in, pc, st)
	}
	if e.MemRead && in.Mem() {
		l, _ := x.loaded(in, at, st, s)
		t = t || l
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
	st.forget(e.Write)
	if e.FlagWrite {
		st.flags, st.cmp = t, 0
	}
	if e.MemWrite && in.Mem() {
		x.stored(at, uint64(width(in, in.Map == 0 && in.Op&1 == 0)), t, value{}, st, s)
	}
}
