package isa

import "github.com/thox-ai/thoxbuild/abicheck/isa/a64"

// placeA64 is where the n-th register of a load or store lies.
func (x *explorer) placeA64(in *insn, n int, st *state) value {
	d := &in.a64
	off := int64(n) * int64(d.Size)
	if in.ref != 0 {
		return value{kind: address, n: int64(in.ref) + off}
	}
	v := x.pointerA64(d.Base, st)
	if d.Index != a64.NoReg {
		return v.anywhere()
	}
	if d.Wback != a64.PostIndex {
		off += d.Imm
	}
	return v.plus(off)
}

// pointerA64 is what register r holds, where the stack and frame pointer are
// kept apart.
func (x *explorer) pointerA64(r uint8, st *state) value {
	switch {
	case r == a64.NoReg:
		return value{}
	case r == a64.SP:
		return value{kind: stackAddress, n: int64(st.sp)}
	case r == 29 && st.framed:
		return value{kind: stackAddress, n: int64(st.bp)}
	}
	return x.reg(st, r)
}

// loadA64 reports whether the n-th register that in loads gets the outcome of
// a CPU test, and what else is known of it.
func (x *explorer) loadA64(in *insn, n int, st *state, s *summary) (t bool, val value) {
	d := &in.a64
	v := x.placeA64(in, n, st)
	switch v.kind {
	case address:
		for i := uint64(0); i < max(uint64(d.Size), 1); i += 4 {
			if x.w.d.has(uint64(v.n) + i) {
				return true, value{}
			}
		}
		if s, ok := x.w.im.slots.at(uint64(v.n)); ok {
			if s.addr != 0 {
				val = value{kind: address, n: int64(s.addr)}
			}
			return s.name != "" && x.w.im.holds(s.name) || s.addr != 0 && x.w.d.has(s.addr), val
		}
	case stackAddress:
		if v.n == somewhere {
			break
		}
		if n, ok := x.slots[int32(v.n)]; ok && d.Size == 8 {
			val = x.valueAt(st.slotKnown[n])
		}
		for n, off := range x.offsets { // a wide load reads several
			if o := int64(off) - v.n; o >= 0 && o < max(int64(d.Size), 1) && st.slots>>n&1 != 0 {
				return true, value{}
			}
		}
		return false, val
	case argument:
		if s.stored(v.arg, v.n) {
			return true, value{}
		}
	}
	return d.Base != a64.NoReg && d.Base != a64.SP && st.regs>>d.Base&1 != 0 || d.Index != a64.NoReg && st.regs>>d.Index&1 != 0, val
}

// moved tells which of the two registers that d stores come from a CPU test.
func moved(d *a64.Inst, st *state) [2]bool {
	has := func(regs uint32, r uint8) bool { return r != a64.NoReg && regs>>(r&31)&1 != 0 }
	return [2]bool{has(st.regs, d.Rt) || has(st.vecs, d.Vt), has(st.regs, d.Rt2) || has(st.vecs, d.Vt2)}
}

// stepA64 carries st over an instruction that does not branch.
func (x *explorer) stepA64(in *insn, st *state, s *summary) {
	d := &in.a64
	switch {
	case d.Base != a64.NoReg:
		x.accessA64(in, st, s)
	case d.Op == a64.AddImm && (d.Rd == a64.SP || d.Rn == a64.SP || d.Rn == 29 && st.framed):
		x.stackA64(d, st)
	default:
		x.computeA64(in, st, s)
	}
}

// computeA64 is what moves no memory.
func (x *explorer) computeA64(in *insn, st *state, s *summary) {
	d := &in.a64
	var t bool
	var v value
	switch {
	case d.Op == a64.ReadID:
		t = true
	case d.Op == a64.Zero:
	case in.ref != 0 && (d.Op == a64.ADR || d.Op == a64.ADRP || d.Op == a64.AddImm):
		v = value{kind: address, n: int64(in.ref)}
		t = d.Op != a64.ADRP && x.tainted(v, st)
	case d.Op == a64.Literal:
		t, v = x.loadA64(in, 0, st, s)
	default:
		t = d.FlagRead && st.flags || st.regs&d.Read != 0 || st.vecs&d.VRead != 0 || d.MemRead && x.w.d.has(in.ref)
		switch d.Op {
		case a64.Move:
			v = x.pointerA64(d.Rm, st)
		case a64.AddImm:
			if v = x.reg(st, d.Rn).plus(d.Imm); d.Rd == d.Rn {
				v = v.anywhere()
			}
		}
	}
	x.set(st, d, t, v)
}

// set writes the result of an instruction with one destination.
func (x *explorer) set(st *state, d *a64.Inst, t bool, v value) {
	st.set(d.Write, t)
	st.forget(d.Write)
	if d.VWrite != 0 {
		st.vecs &^= d.VWrite
		if t {
			st.vecs |= d.VWrite
		}
	}
	if d.FlagWrite {
		st.flags = t
	}
	if v.kind != unknownValue {
		switch {
		case d.Rt != a64.NoReg:
			x.setReg(st, d.Rt, v)
		case d.Rd != a64.NoReg && d.Rd != a64.SP:
			x.setReg(st, d.Rd, v)
		}
	}
	if d.Write>>29&1 != 0 {
		st.framed = false
	}
}

// stackA64 handles what moves the stack or frame pointer or takes the address
// of a variable.
func (x *explorer) stackA64(d *a64.Inst, st *state) {
	v := x.pointerA64(d.Rn, st).plus(d.Imm)
	switch {
	case d.Rd == a64.NoReg: // a comparison
		st.flags = false
	case v.kind != stackAddress || v.n == somewhere:
		if d.Rd != a64.SP {
			x.set(st, d, false, value{})
		}
	case d.Rd == a64.SP:
		st.sp = int32(v.n)
	case d.Rd == 29:
		st.bp, st.framed = int32(v.n), true
	default:
		x.take(v)
		x.set(st, d, x.tainted(v, st), v)
	}
}

// accessA64 is a load, a store or an atomic.
func (x *explorer) accessA64(in *insn, st *state, s *summary) {
	d := &in.a64
	base := x.pointerA64(d.Base, st)
	two := d.Rt2 != a64.NoReg || d.Vt2 != a64.NoReg
	switch {
	case d.MemRead && d.MemWrite: // the address register is no source of the value
		t, _ := x.loadA64(in, 0, st, s)
		if t = t || st.regs&(d.Read&^(1<<d.Base)) != 0; t {
			x.stored(x.placeA64(in, 0, st), uint64(d.Size), true, value{}, st, s)
		}
		x.set(st, d, t, value{})
	case d.MemRead:
		var t2 bool
		var v2 value
		t, v := x.loadA64(in, 0, st, s)
		if two {
			t2, v2 = x.loadA64(in, 1, st, s)
		}
		one := *d
		if d.Wback != a64.NoWback {
			one.Write &^= 1 << d.Base // a pointer stays what it was
		}
		if d.Size != 8 {
			v, v2 = value{}, value{}
		}
		x.set(st, &one, t, v)
		if d.Rt2 != a64.NoReg {
			st.set(1<<d.Rt2, t2)
			x.setReg(st, d.Rt2, v2)
		}
		if d.Vt2 != a64.NoReg {
			st.vecs &^= 1 << d.Vt2
			if t2 {
				st.vecs |= 1 << d.Vt2
			}
		}
	case d.MemWrite:
		t := moved(d, st)
		var v [2]value
		if d.Size == 8 && d.Vt == a64.NoReg {
			v = [2]value{x.pointerA64(d.Rt, st), x.pointerA64(d.Rt2, st)}
		}
		x.stored(x.placeA64(in, 0, st), uint64(d.Size), t[0], v[0], st, s)
		if two {
			x.stored(x.placeA64(in, 1, st), uint64(d.Size), t[1], v[1], st, s)
		}
		if d.Wback == a64.NoWback {
			x.set(st, d, false, value{}) // the status of a store exclusive
		}
	}
	switch {
	case d.Wback == a64.NoWback:
	case d.Base == a64.SP:
		st.sp += int32(d.Imm)
	default:
		x.setReg(st, d.Base, base.anywhere())
	}
}

// writesA64 tells which general and vector registers in writes, and whether it
// writes memory.
func (x *explorer) writesA64(d *a64.Inst) (regs, vecs uint32, mem bool) {
	regs = d.Write &^ x.w.abi.frame
	if d.Wback != a64.NoWback {
		regs &^= 1 << d.Base
	}
	if d.Flow == a64.Call || d.Flow == a64.CallReg {
		regs |= x.w.abi.result
	}
	return regs, d.VWrite, d.MemWrite && d.Base != a64.NoReg
}

// spoilA64 taints what an instruction between a CPU test and the place where
// its arms meet writes.
func (x *explorer) spoilA64(in *insn, st *state, s *summary) {
	d := &in.a64
	regs, vecs, mem := x.writesA64(d)
	st.regs |= regs
	st.vecs |= vecs
	st.forget(regs)
	if !mem {
		return
	}
	for n, two := range []bool{true, d.Rt2 != a64.NoReg || d.Vt2 != a64.NoReg} {
		if !two {
			break
		}
		v := x.placeA64(in, n, st)
		x.deposit(v, max(uint64(d.Size), 1), st, s)
		if v.kind == stackAddress && v.n != somewhere {
			if n, ok := x.slots[int32(v.n)]; ok {
				st.slotKnown[n] = 0
			}
		}
	}
}
