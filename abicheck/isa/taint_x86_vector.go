package isa

import "github.com/thox-ai/thoxbuild/abicheck/isa/x86"

// stepVector follows values through vector registers: compilers copy small
// structures and build pairs in them.
func (x *explorer) stepVector(in *x86.Inst, pc uint64, st *state, s *summary) {
	e := in.Effects()
	var at value
	t := e.FlagRead && st.flags || st.regs&(e.Read&^addressRegs(in)) != 0
	if in.Mem() {
		at = x.place(in, pc, st)
		if e.MemRead {
			for off := int64(0); off < 16 && !t; off += 4 {
				t, _ = x.loaded(in, at.plus(off), st, s)
			}
		}
	}
	vec := func(n uint8) uint32 { return 1 << (n & 31) }
	from, to := uint32(0), uint32(0)
	if in.Flags&x86.HasModRM != 0 {
		toGPR := e.Write&(1<<(in.Reg&31)) != 0 && !in.Mem() && e.Write != 0 && in.Enc != x86.EncEVEX
		switch {
		case e.MemWrite || in.Map == 1 && (in.Op == 0x7e && in.PP != x86.PPF3 || in.Op == 0x29 || in.Op == 0x11 || in.Op == 0x7f || in.Op == 0xd6):
			from = vec(in.Reg)
			if !in.Mem() && e.Write == 0 {
				to = vec(in.RM)
			}
		default:
			if !in.Mem() {
				from = vec(in.RM)
			}
			if e.Write&(1<<(in.Reg&31)) == 0 || !toGPR {
				to = vec(in.Reg)
			}
			// All but plain loads and copies keep part of the destination.
			if !(in.Map == 1 && (in.Op == 0x10 || in.Op == 0x28 || in.Op == 0x6e || in.Op == 0x6f || in.Op == 0x7e)) {
				from |= vec(in.Reg)
			}
			if in.Enc == x86.EncVEX {
				from |= vec(in.V)
			}
		}
	}
	self := in.Map == 1 && (in.Op == 0xef || in.Op == 0x57) && !in.Mem() && in.Reg == in.RM
	t = t || st.vecs&from != 0
	if self {
		t = false
	}
	if to != 0 {
		st.vecs &^= to
		if t {
			st.vecs |= to
		}
	}
	st.set(e.Write, t)
	st.forget(e.Write)
	if e.FlagWrite {
		st.flags, st.cmp = t, 0
	}
	if e.MemWrite && in.Mem() {
		x.stored(at, vectorSize(in), t, value{}, st, s)
	}
}

// vectorSize is how many bytes a vector store writes.
func vectorSize(in *x86.Inst) uint64 {
	if in.Map == 1 && in.Enc == x86.EncLegacy {
		switch in.Op {
		case 0x7e:
			return uint64(width(in, false))
		case 0x13, 0x17, 0xd6:
			return 8
		case 0x11:
			switch in.PP {
			case x86.PPF3:
				return 4
			case x86.PPF2:
				return 8
			}
		}
	}
	return 16 << in.L
}
