package isa

import "github.com/thox-ai/thoxbuild/abicheck/isa/x86"

// arith handles the operations whose outcome is known for known operands.
func (x *explorer) arith(in *x86.Inst, pc uint64, st *state, s *summary) bool {
	op := in.Op
	var kind uint8 // as in the opcode: 0 add, 1 or, 4 and, 5 sub, 6 xor, 7 cmp, 8 test
	var dst uint8
	var t, u bool
	var a, b value
	byteOp := op&1 == 0
	w := width(in, byteOp)
	mem := false
	switch {
	case op < 0x40 && op&7 < 2, op == 0x84 || op == 0x85: // op rm, r
		kind = op >> 3 & 7
		if op >= 0x84 {
			kind = 8
		}
		if x.highByte(in, in.Reg, byteOp) {
			return false
		}
		t, a = x.source(in, pc, w, st, s)
		u, b = st.regs>>(in.Reg&31)&1 != 0, x.reg(st, in.Reg)
		dst, mem = in.RM, in.Mem()
		if !mem && in.Reg == in.RM && (kind == 5 || kind == 6) {
			st.set(1<<(dst&31), false)
			st.flags = false
			x.setReg(st, dst, wide(known(0, w)))
			st.compare(6, known(0, w), known(0, w), w)
			return true
		}
	case op < 0x40 && op&7 < 4: // op r, rm
		kind = op >> 3 & 7
		if x.highByte(in, in.Reg, byteOp) {
			return false
		}
		u, b = x.source(in, pc, w, st, s)
		t, a = st.regs>>(in.Reg&31)&1 != 0, x.reg(st, in.Reg)
		dst = in.Reg
	case op < 0x40 && op&7 < 6: // op rax, imm
		kind = op >> 3 & 7
		t, a, b = st.regs&1 != 0, x.reg(st, 0), known(in.Imm, w)
	case op == 0xa8 || op == 0xa9:
		kind = 8
		t, a, b = st.regs&1 != 0, x.reg(st, 0), known(in.Imm, w)
	case op == 0x80 || op == 0x81 || op == 0x83:
		kind = in.ModRM >> 3 & 7
		t, a = x.source(in, pc, w, st, s)
		b = known(in.Imm, w)
		dst, mem = in.RM, in.Mem()
	case (op == 0xf6 || op == 0xf7) && in.ModRM>>3&7 < 2:
		kind = 8
		t, a = x.source(in, pc, w, st, s)
		b = known(in.Imm, w)
		mem = in.Mem()
	default:
		return false
	}
	if kind == 2 || kind == 3 || !mem && x.highByte(in, in.RM, byteOp) {
		return false
	}
	fa, fb := fit(a, w), fit(b, w)
	var v value
	switch {
	case kind >= 7:
	case fa.kind == constant && fb.kind == constant:
		switch kind {
		case 1:
			v = known(fa.n|fb.n, w)
		case 4:
			v = known(fa.n&fb.n, w)
		case 6:
			v = known(fa.n^fb.n, w)
		}
	case kind == 4 && (fa.kind == constant && fa.n == 0 || fb.kind == constant && fb.n == 0):
		v, t, u = known(0, w), false, false
	case (kind == 0 || kind == 5) && w == 8 && fa.kind > constant:
		v = fa.anywhere()
	case kind == 0 && w == 8 && fb.kind > constant:
		v = fb.anywhere()
	}
	st.flags = t || u
	st.compare(kind, fa, fb, w)
	if kind >= 7 {
		return true
	}
	if mem {
		x.stored(x.place(in, pc, st), uint64(w), t || u, v, st, s)
		return true
	}
	st.set(1<<(dst&31), t || u)
	x.setReg(st, dst, wide(v))
	return true
}

// compare sets what is known of the flags after an operation.
func (st *state) compare(kind uint8, a, b value, w uint8) {
	st.cmp = 0
	if a.kind != constant || b.kind != constant {
		return
	}
	sh := 64 - 8*uint(w)
	m := uint64(a.n) << sh
	n := uint64(b.n) << sh
	var r uint64
	var cf, of bool
	switch kind {
	case 1:
		r = m | n
	case 4, 8:
		r = m & n
	case 6:
		r = m ^ n
	case 5, 7:
		r = m - n
		cf = m < n
		of = int64((m^n)&(m^r)) < 0
	default:
		return
	}
	st.cmp = flagsKnown
	if r == 0 {
		st.cmp |= flagZ
	}
	if int64(r) < 0 {
		st.cmp |= flagS
	}
	if cf {
		st.cmp |= flagC
	}
	if of {
		st.cmp |= flagO
	}
}

// The bits of state.cmp.
const (
	flagsKnown = 1 << iota
	flagZ
	flagS
	flagC
	flagO
)

// decide evaluates a condition code of x86; ok is false where the flags are
// not known, or the code asks for parity.
func (st *state) decide(cc uint8) (yes, ok bool) {
	if st.cmp&flagsKnown == 0 {
		return false, false
	}
	z, s, c, o := st.cmp&flagZ != 0, st.cmp&flagS != 0, st.cmp&flagC != 0, st.cmp&flagO != 0
	switch cc >> 1 {
	case 0:
		yes = o
	case 1:
		yes = c
	case 2:
		yes = z
	case 3:
		yes = c || z
	case 4:
		yes = s
	case 6:
		yes = s != o
	case 7:
		yes = z || s != o
	default:
		return false, false
	}
	return yes != (cc&1 != 0), true
}
