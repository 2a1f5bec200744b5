package isa

import "github.com/thox-ai/thoxbuild/abicheck/isa/a64"

// stackSlot returns the stack offset that an operand names.
func stackSlot(d *a64.Inst, st *state) (off int32, ok bool) {
	if d.Index != a64.NoReg {
		return 0, false
	}
	disp := int32(d.Imm)
	if d.Wback == a64.PostIndex {
		disp = 0
	}
	switch {
	case d.Base == a64.SP:
		return st.sp + disp, true
	case d.Base == 29 && st.framed:
		return st.bp + disp, true
	}
	return 0, false
}

// loadedA64 reports whether the n-th register that in loads gets a CPU test.
func (x *explorer) loadedA64(in *insn, n int, st *state) bool {
	d := &in.a64
	size := int32(d.Size)
	if off, ok := stackSlot(d, st); ok {
		return x.heldA64(off+int32(n)*size, st)
	}
	if in.ref != 0 {
		at := in.ref + uint64(n)*uint64(d.Size)
		for i := uint64(0); i < max(uint64(d.Size), 1); i += 4 {
			if x.w.d.has(at + i) {
				return true
			}
		}
		if s, ok := x.w.im.slots[at]; ok {
			return s.name != "" && x.w.im.holds(s.name) || s.addr != 0 && x.w.d.has(s.addr)
		}
	}
	return d.Base != a64.NoReg && st.regs>>d.Base&1 != 0 || d.Index != a64.NoReg && st.regs>>d.Index&1 != 0
}

// maxOut is how many bytes behind an address that was handed out are taken for
// one object.
const maxOut = 64

// heldA64 reports whether the stack at off holds a CPU test: it was stored
// there, or a callee wrote it through a pointer.
func (x *explorer) heldA64(off int32, st *state) bool {
	if bit, ok := x.slotBit(off); ok && st.slots&bit != 0 {
		return true
	}
	if !st.out {
		return false
	}
	for a := range x.handed {
		if a == off || off-a > 0 && off-a < maxOut && !x.self[off] {
			return true
		}
	}
	return false
}

// moved is the tainted registers among those that in moves, first and second.
func moved(d *a64.Inst, st *state) (t, t2 bool) {
	has := func(regs uint32, r uint8) bool { return r != a64.NoReg && regs>>r&1 != 0 }
	return has(st.regs, d.Rt) || has(st.vecs, d.Vt), has(st.regs, d.Rt2) || has(st.vecs, d.Vt2)
}

func (x *explorer) stepA64(in *insn, st *state) {
	d := &in.a64
	switch {
	case x.stackA64(d, st):
	case d.Base != a64.NoReg:
		x.accessA64(in, st)
	case d.Op == a64.ReadID:
		st.set(d.Write, true)
	case d.Op == a64.Zero:
		st.set(d.Write, false)
		st.flags = st.flags && !d.FlagWrite
	case in.ref != 0 && (d.Op == a64.ADR || d.Op == a64.AddImm):
		st.set(d.Write, x.w.d.has(in.ref))
		st.flags = st.flags && !d.FlagWrite
	default:
		t := d.FlagRead && st.flags || st.regs&d.Read != 0 || st.vecs&d.VRead != 0 || d.MemRead && x.loadedA64(in, 0, st)
		st.set(d.Write, t)
		st.setVec(d.VWrite, t)
		if d.FlagWrite {
			st.flags = t
		}
	}
	if d.Write>>29&1 != 0 && d.Op != a64.AddImm {
		st.framed = false
	}
}

// accessA64 is a load, a store or an atomic.
func (x *explorer) accessA64(in *insn, st *state) {
	d := &in.a64
	t, t2 := moved(d, st)
	switch {
	case d.MemRead && d.MemWrite: // the address register is no source of the value
		t = st.regs&(d.Read&^(1<<d.Base)) != 0
		if t = t || x.loadedA64(in, 0, st); t {
			x.storeA64(in, 0, true, st)
		}
		st.set(d.Write, t)
	case d.MemRead:
		t, t2 = x.loadedA64(in, 0, st), (d.Rt2 != a64.NoReg || d.Vt2 != a64.NoReg) && x.loadedA64(in, 1, st)
		write := d.Write
		if d.Wback != a64.NoWback {
			write &^= 1 << d.Base // a pointer stays what it was
		}
		st.set(write, t)
		st.setVec(d.VWrite, t)
		if d.Rt2 != a64.NoReg {
			st.set(1<<d.Rt2, t2)
		}
		if d.Vt2 != a64.NoReg {
			st.setVec(1<<d.Vt2, t2)
		}
	case d.MemWrite:
		x.storeA64(in, 0, t, st)
		if d.Rt2 != a64.NoReg || d.Vt2 != a64.NoReg {
			x.storeA64(in, 1, t2, st)
		}
		if d.Wback == a64.NoWback {
			st.set(d.Write, false) // the status of a store exclusive
		}
	}
	if d.Wback != a64.NoWback && d.Base == a64.SP {
		st.sp += int32(d.Imm)
	}
}

func (st *state) setVec(regs uint32, t bool) {
	if t {
		st.vecs |= regs
	} else {
		st.vecs &^= regs
	}
}

// storeA64 notes a store of the n-th register of in.
func (x *explorer) storeA64(in *insn, n int, t bool, st *state) {
	d := &in.a64
	if off, ok := stackSlot(d, st); ok {
		off += int32(n) * int32(d.Size)
		x.self[off] = true
		if bit, ok := x.slotBit(off); ok {
			if t {
				st.slots |= bit
			} else {
				st.slots &^= bit
			}
		}
		return
	}
	switch {
	case !t:
	case in.ref == 0:
		x.out.out = true
	case x.w.store != nil:
		x.w.store(in.ref+uint64(n)*uint64(d.Size), uint64(d.Size))
	}
}

// stackA64 handles what moves the stack or frame pointer or takes the address
// of a slot; it reports whether the instruction is done with.
func (x *explorer) stackA64(d *a64.Inst, st *state) bool {
	if d.Op != a64.AddImm {
		return false
	}
	var v int32
	switch {
	case d.Rn == a64.SP:
		v = st.sp + int32(d.Imm)
	case d.Rn == 29 && st.framed:
		v = st.bp + int32(d.Imm)
	default:
		return false
	}
	switch d.Rd {
	case a64.SP:
		st.sp = v
	case 29:
		st.bp, st.framed = v, true
	default:
		x.handed[v] = true
		st.set(d.Write, false)
	}
	return true
}

// spoilA64 taints what an instruction writes.
func (x *explorer) spoilA64(in *insn, st *state) {
	d := &in.a64
	write := d.Write &^ x.w.abi.frame
	if d.Wback != a64.NoWback {
		write &^= 1 << d.Base
	}
	st.regs |= write
	st.vecs |= d.VWrite
	if !d.MemWrite {
		return
	}
	x.storeA64(in, 0, true, st)
	if d.Rt2 != a64.NoReg || d.Vt2 != a64.NoReg {
		x.storeA64(in, 1, true, st)
	}
}
