package a64

// Decode describes the instruction word w. Words that are no instruction, and
// those of extensions that move no general register, come out as Other
// without effects.
func Decode(w uint32) Inst {
	in := Inst{Rd: NoReg, Rn: NoReg, Rm: NoReg, Rt: NoReg, Rt2: NoReg, Vt: NoReg, Vt2: NoReg, Base: NoReg, Index: NoReg}
	switch w >> 25 & 15 {
	case 0:
		if w>>16 == 0 {
			in.Flow = Stop // udf
		}
	case 8, 9:
		in.immediate(w)
	case 10, 11:
		in.branch(w)
	case 4, 6, 12, 14:
		in.memory(w)
	case 5, 13:
		in.register(w)
	case 7, 15:
		in.vector(w)
	}
	return in
}

// def sets the operands of an instruction with a destination and sources.
func (in *Inst) def(rd, rn, rm uint8) {
	in.Rd, in.Rn, in.Rm = rd, rn, rm
	in.Write |= bit(rd)
	in.Read |= bit(rn) | bit(rm)
}

func (in *Inst) immediate(w uint32) {
	switch w >> 23 & 7 {
	case 0, 1:
		in.def(zr(w), NoReg, NoReg)
		in.Op, in.Imm = ADR, signed(w, 23, 5)<<2|int64(w>>29&3)
		if w>>31 != 0 {
			in.Op, in.Imm = ADRP, in.Imm<<12
		}
	case 2:
		rd := sp(w)
		if in.FlagWrite = w>>29&1 != 0; in.FlagWrite {
			rd = zr(w)
		}
		in.def(rd, sp(w>>5), NoReg)
		in.Imm = int64(w >> 10 & 0xfff)
		if w>>22&1 != 0 {
			in.Imm <<= 12
		}
		if w>>30&1 != 0 {
			in.Imm = -in.Imm
		}
		if w>>31 != 0 && rd != NoReg {
			in.Op = AddImm
		}
	case 3: // addg, and smax ... by immediate
		in.def(zr(w), zr(w>>5), NoReg)
	case 4:
		rd := sp(w)
		if in.FlagWrite = w>>29&3 == 3; in.FlagWrite {
			rd = zr(w)
		}
		in.def(rd, zr(w>>5), NoReg)
	case 5:
		in.def(zr(w), NoReg, NoReg)
		imm := int64(w>>5&0xffff) << (16 * (w >> 21 & 3))
		switch w >> 29 & 3 {
		case 0:
			in.Op, in.Imm = MoveImm, ^imm
			if w>>31 == 0 {
				in.Imm = int64(uint32(in.Imm))
			}
		case 2:
			in.Op, in.Imm = MoveImm, imm
		case 3:
			in.Read |= bit(in.Rd)
		}
	case 6:
		in.def(zr(w), zr(w>>5), NoReg)
		if w>>29&3 == 1 { // bfm keeps the other bits
			in.Read |= bit(in.Rd)
		}
	case 7:
		in.def(zr(w), zr(w>>5), zr(w>>16))
	}
}

func (in *Inst) branch(w uint32) {
	switch {
	case w&0x7c000000 == 0x14000000:
		in.Flow, in.Imm = Jump, signed(w, 25, 0)*4
		if w>>31 != 0 {
			in.Flow, in.Write = Call, 1<<30
		}
	case w&0xff000000 == 0x54000000:
		in.Flow, in.Imm, in.FlagRead = Cond, signed(w, 23, 5)*4, true
		if w>>1&7 == 7 { // al, nv
			in.Flow, in.FlagRead = Jump, false
		}
	case w&0x7e000000 == 0x34000000:
		in.Flow, in.Imm, in.Tested = Cond, signed(w, 23, 5)*4, bit(zr(w))
		in.Read = in.Tested
		if in.Tested == 0 { // cbz xzr always branches, cbnz xzr never
			in.Flow = Jump
			if w>>24&1 != 0 {
				in.Flow = Next
			}
		}
	case w&0x7e000000 == 0x36000000:
		in.Flow, in.Imm, in.Tested = Cond, signed(w, 18, 5)*4, bit(zr(w))
		in.Read = in.Tested
		if in.Tested == 0 {
			in.Flow = Jump
			if w>>24&1 != 0 {
				in.Flow = Next
			}
		}
	case w>>25 == 0x6b:
		in.Rn = zr(w >> 5)
		in.Read = bit(in.Rn)
		switch w >> 21 & 7 {
		case 0:
			in.Flow = JumpReg
		case 1:
			in.Flow, in.Write = CallReg, 1<<30
		default:
			in.Flow = Return
		}
	case w>>24 == 0xd4:
		switch w & 0xe0001f {
		case 1:
			in.Flow, in.Write = Environment, 1
		case 0x200000, 0x400000:
			in.Flow = Stop
		}
	case w>>22 == 0x354:
		in.system(w)
	}
}

func (in *Inst) system(w uint32) {
	switch {
	case w&0xfff00000 == 0xd5300000:
		in.def(zr(w), NoReg, NoReg)
		in.FlagRead = w&0xffffffe0 == 0xd53b4200
		if w&0xfffff000 == 0xd5380000 { // op0 3, op1 0, CRn 0: MIDR_EL1, ID_AA64ISAR0_EL1 ...
			in.Op = ReadID
		}
	case w&0xfff80000 == 0xd5280000: // sysl
		in.def(zr(w), NoReg, NoReg)
	case w&0xfff00000 == 0xd5100000, w&0xfff80000 == 0xd5080000: // msr, sys
		in.Read = bit(zr(w))
		in.FlagWrite = w&0xffffffe0 == 0xd51b4200
	case w&0xfffff0df == 0xd500401f, w&0xfffff0ff == 0xd500405f: // cfinv, xaflag, axflag
		in.FlagRead, in.FlagWrite = true, true
	}
}

func (in *Inst) register(w uint32) {
	rd, rn, rm := zr(w), zr(w>>5), zr(w>>16)
	same := rn == rm && rn != NoReg
	switch {
	case w&0x1f000000 == 0x0a000000: // logical
		in.def(rd, rn, rm)
		in.FlagWrite = w>>29&3 == 3
		switch {
		case w&0xffe0ffe0 == 0xaa0003e0:
			in.Op = Move
		case w&0x7fe0fc00 == 0x2a000000 && rn == NoReg && rm == NoReg, w&0x7fe0fc00 == 0x4a000000 && same:
			in.Op = Zero
		}
	case w&0x1f000000 == 0x0b000000: // add, sub
		in.FlagWrite = w>>29&1 != 0
		if w>>21&1 != 0 { // extended: the stack pointer may take part
			if rn = sp(w >> 5); !in.FlagWrite {
				rd = sp(w)
			}
			same = false
		}
		in.def(rd, rn, rm)
		if w&0x5fe0fc00 == 0x4b000000 && same {
			in.Op = Zero
		}
	case w&0x1f000000 == 0x1b000000: // madd ...
		in.def(rd, rn, rm)
		in.Read |= bit(zr(w >> 10))
	case w&0x1fe00000 == 0x1a000000:
		switch {
		case w&0xfc00 == 0: // adc, sbc
			in.def(rd, rn, rm)
			in.FlagRead, in.FlagWrite = true, w>>29&1 != 0
		default: // rmif, setf
			in.Read, in.FlagRead, in.FlagWrite = bit(rn), true, true
		}
	case w&0x1fe00000 == 0x1a400000: // ccmp
		in.Read, in.FlagRead, in.FlagWrite = bit(rn), true, true
		if w>>11&1 == 0 {
			in.Read |= bit(rm)
		}
	case w&0x1fe00000 == 0x1a800000: // csel ...
		in.def(rd, rn, rm)
		in.FlagRead = true
	case w&0x5fe00000 == 0x1ac00000:
		in.def(rd, rn, rm)
		in.FlagWrite = w>>29&1 != 0 // subps
	case w&0x5fe00000 == 0x5ac00000:
		in.def(rd, rn, NoReg)
		if w>>16&31 == 1 { // pacia ... sign what is there
			in.Read |= bit(rd)
		}
	}
}

// vector is floating point and Advanced SIMD.
func (in *Inst) vector(w uint32) {
	vd, vn, vm := uint32(1)<<(w&31), uint32(1)<<(w>>5&31), uint32(1)<<(w>>16&31)
	toGeneral := func() {
		in.def(zr(w), NoReg, NoReg)
		in.VRead = vn
	}
	fromGeneral := func() {
		in.Read = bit(zr(w >> 5))
		in.VRead, in.VWrite = vd, vd
	}
	switch {
	case w&0x5f20fc00 == 0x1e200000: // fmov, fcvt*, scvtf ...
		if op := w >> 16 & 7; op == 2 || op == 3 || op == 7 {
			if fromGeneral(); w>>19&3 == 0 {
				in.VRead = 0 // all but fmov to the upper half
			}
		} else {
			toGeneral()
		}
		in.FlagWrite = w&0xfffffc00 == 0x1e7e0000 // fjcvtzs
	case w&0x5f200000 == 0x1e000000: // with a fixed point
		if op := w >> 16 & 7; op == 2 || op == 3 {
			fromGeneral()
			in.VRead = 0
		} else {
			toGeneral()
		}
	case w&0xff20fc07 == 0x1e202000: // fcmp
		in.FlagWrite, in.VRead = true, vn|vm
	case w&0xff200c00 == 0x1e200400: // fccmp
		in.FlagRead, in.FlagWrite, in.VRead = true, true, vn|vm
	case w&0xff200c00 == 0x1e200c00: // fcsel
		in.FlagRead, in.VRead, in.VWrite = true, vn|vm, vd
	case w&0xbfe08400 == 0x0e000400 && w>>11&15 != 0:
		switch w >> 11 & 15 {
		case 5, 7: // smov, umov
			toGeneral()
		case 1: // dup
			fromGeneral()
			in.VRead = 0
		case 3: // ins
			fromGeneral()
		}
	case w&0x9ff80400 == 0x0f000400 && w>>12&15 != 15 && w>>12&9 != 1, // movi, mvni
		w&0xff201fe0 == 0x1e201000: // fmov of a constant
		in.VWrite = vd
	default:
		in.VRead, in.VWrite = vd|vn|vm, vd
	}
}
