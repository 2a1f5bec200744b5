package isa

import "github.com/thox-ai/thoxbuild/abicheck/isa/x86"

// source is the ModRM operand as a value that is read.
func (x *explorer) source(in *x86.Inst, pc uint64, w uint8, st *state, s *summary) (t bool, v value) {
	if in.Mem() {
		return x.loaded(in, x.place(in, pc, st), st, s)
	}
	r := in.RM
	if x.highByte(in, r, w == 1) {
		return st.regs>>(r-4)&1 != 0, value{}
	}
	return st.regs>>(r&31)&1 != 0, x.reg(st, r)
}

// move handles what copies a value; it reports whether in is done with.
func (x *explorer) move(in *x86.Inst, pc uint64, st *state, s *summary) bool {
	op := in.Op
	switch op {
	case 0x88, 0x89, 0xc6, 0xc7:
		w := width(in, op&1 == 0)
		var t bool
		var v value
		switch {
		case op >= 0xc6:
			v = known(in.Imm, w)
		case x.highByte(in, in.Reg, w == 1):
			t = st.regs>>(in.Reg-4)&1 != 0
		default:
			t, v = st.regs>>(in.Reg&31)&1 != 0, fit(x.reg(st, in.Reg), w)
		}
		if in.Mem() {
			x.stored(x.place(in, pc, st), uint64(w), t, v, st, s)
			return true
		}
		if x.highByte(in, in.RM, w == 1) {
			st.regs |= boolBit(t, in.RM-4)
			st.known[in.RM-4] = 0
			return true
		}
		if op == 0x89 && in.Reg == 4 && w == 8 {
			v = value{kind: stackAddress, n: int64(st.sp)}
			x.take(v)
		}
		st.set(1<<(in.RM&31), t)
		x.setReg(st, in.RM, wide(v))
		return true
	case 0x8a, 0x8b:
		w := width(in, op == 0x8a)
		t, v := x.source(in, pc, w, st, s)
		if x.highByte(in, in.Reg, w == 1) {
			st.regs |= boolBit(t, in.Reg-4)
			st.known[in.Reg-4] = 0
			return true
		}
		st.set(1<<(in.Reg&31), t)
		x.setReg(st, in.Reg, wide(fit(v, w)))
		return true
	case 0x63: // movsxd
		t, v := x.source(in, pc, 4, st, s)
		if v = fit(v, 4); v.kind == constant {
			v = known(int64(int32(v.n)), 8)
		}
		st.set(1<<(in.Reg&31), t)
		x.setReg(st, in.Reg, v)
		return true
	case 0x8d: // lea
		v := x.place(in, pc, st)
		t := in.Flags&x86.IsRIP == 0 && (in.Base != x86.NoReg && in.Base != 4 && st.regs>>(in.Base&31)&1 != 0 ||
			in.Index != x86.NoReg && st.regs>>(in.Index&31)&1 != 0)
		x.take(v)
		if in.Base == in.Reg && v.kind != stackAddress {
			v = v.anywhere()
		}
		st.set(1<<(in.Reg&31), t || v.kind == address && x.tainted(v, st))
		x.setReg(st, in.Reg, fit(v, width(in, false)))
		return true
	}
	if op >= 0xb0 && op <= 0xbf {
		r := op&7 | in.Reg
		w := width(in, op < 0xb8)
		if x.highByte(in, r, w == 1) {
			st.known[r-4] = 0
			return true
		}
		st.set(1<<(r&31), false)
		x.setReg(st, r, wide(known(in.Imm, w)))
		return true
	}
	return false
}
