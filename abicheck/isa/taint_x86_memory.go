package isa

import "github.com/thox-ai/thoxbuild/abicheck/isa/x86"

// place is where the memory operand of in lies.
func (x *explorer) place(in *x86.Inst, pc uint64, st *state) value {
	if to, rip := in.RIPTarget(pc); rip {
		return value{kind: address, n: int64(to)}
	}
	if in.Flags&(x86.SegFS|x86.SegGS) != 0 || in.Base == x86.NoReg {
		return value{}
	}
	v := x.reg(st, in.Base)
	switch {
	case in.Base == 4:
		v = value{kind: stackAddress, n: int64(st.sp)}
	case in.Base == 5 && st.framed:
		v = value{kind: stackAddress, n: int64(st.bp)}
	}
	if in.Index != x86.NoReg {
		return v.anywhere()
	}
	return v.plus(int64(in.Disp))
}

// loaded reports whether the memory operand of in, at v, holds the outcome of
// a CPU test, and what else is known of it.
func (x *explorer) loaded(in *x86.Inst, v value, st *state, s *summary) (t bool, val value) {
	switch v.kind {
	case address:
		a := uint64(v.n)
		if x.w.d.has(a) {
			return true, value{}
		}
		if s, ok := x.w.im.slots.at(a); ok {
			if s.addr != 0 {
				val = value{kind: address, n: int64(s.addr)}
			}
			return s.name != "" && x.w.im.holds(s.name) || s.addr != 0 && x.w.d.has(s.addr), val
		}
	case stackAddress:
		if v.n != somewhere {
			if n, ok := x.slots[int32(v.n)]; ok {
				if id := st.slotKnown[n]; id != 0 {
					val = x.values[id]
				}
				return st.slots>>n&1 != 0, val
			}
			return false, val
		}
	case argument:
		if s.stored(v.arg, v.n) {
			return true, value{}
		}
	}
	return in.Base != x86.NoReg && in.Base != 4 && st.regs>>(in.Base&31)&1 != 0 ||
		in.Index != x86.NoReg && st.regs>>(in.Index&31)&1 != 0, value{}
}

// stored carries a store of size bytes to v over st; t tells that the value
// comes from a CPU test, and val what is known of it.
func (x *explorer) stored(v value, size uint64, t bool, val value, st *state, s *summary) {
	if v.kind == stackAddress {
		if v.n == somewhere {
			return
		}
		if bit, ok := x.slotBit(int32(v.n)); ok {
			n := x.slots[int32(v.n)]
			st.slots &^= bit
			if t {
				st.slots |= bit
			}
			st.slotKnown[n] = x.number(val)
			// A wider store replaces its neighbours as well.
			for m, off := range x.offsets {
				if d := int64(off) - v.n; d > 0 && d < int64(size) {
					st.slots &^= 1 << m
					if t {
						st.slots |= 1 << m
					}
					st.slotKnown[m] = 0
				}
			}
		}
		return
	}
	if v.kind != address {
		x.overwritten(st)
	}
	// Where a test decides whether this store happens, its value does too.
	if t || x.nest > 0 && x.small() {
		x.deposit(v, size, st, s)
	}
}

// small tells that the function is small enough to be about a CPU test as a
// whole, so that what it stores in an arm of one is an outcome of it.
func (x *explorer) small() bool { return x.f.insns <= maxTell || x.f.cpuid }
