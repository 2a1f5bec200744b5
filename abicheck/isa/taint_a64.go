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

// loadedA64 reports whether the n-th word of a memory operand holds a CPU test.
func (x *explorer) loadedA64(in *insn, n int, st *state) bool {
	d := &in.a64
	if off, ok := stackSlot(d, st); ok {
		bit, ok := x.slotBit(off + int32(n)*int32(d.Size))
		return ok && st.slots&bit != 0
	}
	if in.ref != 0 {
		at := in.ref + uint64(n)*uint64(d.Size)
		if x.w.d.has(at) {
			return true
		}
		if s, ok := x.w.im.slots[at]; ok {
			return s.name != "" && stateName(s.name) || s.addr != 0 && x.w.d.has(s.addr)
		}
	}
	return d.Base != a64.NoReg && st.regs>>d.Base&1 != 0 || d.Index != a64.NoReg && st.regs>>d.Index&1 != 0
}

func (x *explorer) stepA64(in *insn, st *state) {
	d := &in.a64
	if x.stackA64(d, st) {
		return
	}
	switch d.Op {
	case a64.ReadID:
		st.set(d.Write, true)
		return
	case a64.Zero:
		st.set(d.Write, false)
		if d.FlagWrite {
			st.flags = false
		}
		return
	case a64.ADR, a64.AddImm:
		if in.ref != 0 {
			st.set(d.Write, x.w.d.has(in.ref))
			if d.FlagWrite {
				st.flags = false
			}
			return
		}
	}
	t := d.FlagRead && st.flags
	read := d.Read
	if d.Base != a64.NoReg { // address registers are no source of the value that is stored
		read = 0
		switch {
		case d.Op == a64.Store:
			if d.Rt != a64.NoReg {
				read |= 1 << d.Rt
			}
		case d.MemRead && d.MemWrite:
			read = d.Read &^ (1 << d.Base)
		}
	}
	t = t || st.regs&read != 0
	var t2 bool
	if d.MemRead {
		t = t || x.loadedA64(in, 0, st)
		t2 = d.Rt2 != a64.NoReg && x.loadedA64(in, 1, st)
	}
	if d.MemWrite && d.Base != a64.NoReg {
		x.storeA64(in, 0, t, st)
		if d.Rt2 != a64.NoReg {
			x.storeA64(in, 1, st.regs>>d.Rt2&1 != 0, st)
		}
	}
	write := d.Write
	if d.Wback != a64.NoWback {
		write &^= 1 << d.Base // a pointer stays what it was
	}
	if d.Op == a64.Store {
		st.set(write, false) // the status of a store exclusive
	} else {
		st.set(write, t)
		if d.Rt2 != a64.NoReg {
			st.set(1<<d.Rt2, t2)
		}
	}
	if d.FlagWrite {
		st.flags = t
	}
	switch {
	case d.Wback == a64.NoWback:
	case d.Base == a64.SP:
		st.sp += int32(d.Imm)
	case d.Base == 29:
		st.framed = false
	}
	if d.Write>>29&1 != 0 {
		st.framed = false
	}
}

// storeA64 notes a store of the n-th register of in.
func (x *explorer) storeA64(in *insn, n int, t bool, st *state) {
	d := &in.a64
	if off, ok := stackSlot(d, st); ok {
		if bit, ok := x.slotBit(off + int32(n)*int32(d.Size)); ok {
			if t {
				st.slots |= bit
			} else {
				st.slots &^= bit
			}
		}
		return
	}
	if t && in.ref != 0 && x.w.store != nil {
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
		if bit, ok := x.slotBit(v); ok {
			x.taken |= bit
		}
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
	if !d.MemWrite {
		return
	}
	x.storeA64(in, 0, true, st)
	if d.Rt2 != a64.NoReg {
		x.storeA64(in, 1, true, st)
	}
}
