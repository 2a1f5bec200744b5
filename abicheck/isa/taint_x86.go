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
