package a64

// memory is loads and stores.
func (in *Inst) memory(w uint32) {
	rt, rn := zr(w), sp(w>>5)
	size, v := w>>30, w>>26&1 != 0
	switch {
	case w&0x3b000000 == 0x18000000: // literal
		if size == 3 {
			return // prfm
		}
		in.MemRead, in.Imm = true, signed(w, 23, 5)*4
		if v {
			in.Vt, in.VWrite, in.Size = uint8(w&31), 1<<(w&31), 4<<size
		} else {
			in.Op, in.Rt, in.Size = Literal, rt, uint8(4+4*(size&1))
			in.Write = bit(rt)
		}
	case w&0x3a000000 == 0x28000000:
		in.pair(w)
	case w&0x3b000000 == 0x39000000: // unsigned offset
		scale := size
		if v && w>>23&1 != 0 {
			scale = 4
		}
		in.access(w, rt, rn, int64(w>>10&0xfff)<<scale)
	case w&0x3b200000 == 0x38000000: // unscaled, unprivileged, with index write
		in.access(w, rt, rn, signed(w, 20, 12))
		switch w >> 10 & 3 {
		case 1:
			in.wback(PostIndex)
		case 3:
			in.wback(PreIndex)
		}
	case w&0x3b200c00 == 0x38200800: // register offset
		in.access(w, rt, rn, 0)
		if in.Base != NoReg {
			in.Index = zr(w >> 16)
			in.Read |= bit(in.Index)
		}
	case w&0x3f200c00 == 0x38200000: // atomics
		in.operand(rn, 0, 1<<size)
		in.MemRead, in.Write = true, in.Write|bit(rt)
		in.Read |= bit(zr(w >> 16))
		in.MemWrite = w&0x3ffffc00 != 0x38bfc000 // ldapr only reads
		in.load(rt)
	case w&0xff200400 == 0xf8200400: // ldraa
		in.operand(rn, (signed(w, 22, 22)<<9|int64(w>>12&0x1ff))<<3, 8)
		in.load(rt)
		if w>>11&1 != 0 {
			in.wback(PreIndex)
		}
	case w&0x3f200c00 == 0x19000000: // ldapur, stlur
		in.access(w, rt, rn, signed(w, 20, 12))
	case w&0x3f000000 == 0x08000000:
		in.exclusive(w)
	case w&0xbe000000 == 0x0c000000: // structures of vectors
		in.operand(rn, 0, 0)
		in.vectors(uint8(w&31), NoReg, w>>22&1 != 0)
		if w>>23&1 != 0 {
			in.Write |= bit(rn)
			in.Read |= bit(zr(w >> 16))
		}
	}
}

// operand sets the memory operand.
func (in *Inst) operand(base uint8, disp int64, size uint8) {
	in.Base, in.Imm, in.Size = base, disp, size
	in.Read |= bit(base)
}

func (in *Inst) load(rt uint8) {
	in.Op, in.Rt, in.MemRead = Load, rt, true
	in.Write |= bit(rt)
}

func (in *Inst) store(rt uint8) {
	in.Op, in.Rt, in.MemWrite = Store, rt, true
	in.Read |= bit(rt)
}

// vectors sets what a load or store of vector registers moves.
func (in *Inst) vectors(vt, vt2 uint8, load bool) {
	in.Vt, in.Vt2, in.MemRead, in.MemWrite = vt, vt2, load, !load
	if load {
		in.VWrite = bit(vt) | bit(vt2)
	} else {
		in.VRead = bit(vt) | bit(vt2)
	}
}

func (in *Inst) wback(k Wback) {
	if in.Base != NoReg {
		in.Wback = k
		in.Write |= bit(in.Base)
	}
}

// access is the loads and stores of one register, with opc in bits 23 and 22.
func (in *Inst) access(w uint32, rt, rn uint8, disp int64) {
	size, opc := w>>30, w>>22&3
	if w>>26&1 != 0 {
		n := uint8(1) << size
		if opc&2 != 0 {
			n = 16
		}
		in.operand(rn, disp, n)
		in.vectors(uint8(w&31), NoReg, opc&1 != 0)
		return
	}
	switch {
	case size == 3 && opc == 2: // prfm
		return
	case opc == 0:
		in.operand(rn, disp, 1<<size)
		in.store(rt)
	default:
		in.operand(rn, disp, 1<<size)
		in.load(rt)
	}
}

func (in *Inst) pair(w uint32) {
	opc, load := w>>30, w>>22&1 != 0
	n := uint8(4) << (opc & 3)
	switch {
	case w>>26&1 != 0:
	case opc == 1 && load: // ldpsw
		n = 4
	case opc == 1: // stgp
		n = 16
	case opc == 2:
		n = 8
	}
	in.operand(sp(w>>5), signed(w, 21, 15)*int64(n), n)
	switch {
	case w>>26&1 != 0:
		in.vectors(uint8(w&31), uint8(w>>10&31), load)
	case load:
		in.load(zr(w))
		in.Rt2 = zr(w >> 10)
		in.Write |= bit(in.Rt2)
	default:
		if opc == 1 {
			n = 8
		}
		in.store(zr(w))
		in.Rt2 = zr(w >> 10)
		in.Read |= bit(in.Rt2)
	}
	in.Size = n
	switch w >> 23 & 3 {
	case 1:
		in.wback(PostIndex)
	case 3:
		in.wback(PreIndex)
	}
}

// exclusive is exclusive and ordered accesses, and compare and swap.
func (in *Inst) exclusive(w uint32) {
	rs, rt, rt2, rn := zr(w>>16), zr(w), zr(w>>10), sp(w>>5)
	load, pair := w>>22&1 != 0, w>>21&1 != 0
	in.operand(rn, 0, 1<<(w>>30))
	switch {
	case pair && (w>>23&1 != 0 || w>>31 == 0): // cas, casp
		in.MemRead, in.MemWrite = true, true
		in.Read |= bit(rs) | bit(rt)
		in.Write |= bit(rs)
	case load:
		in.load(rt)
		if pair {
			in.Rt2 = rt2
			in.Write |= bit(rt2)
		}
	default:
		in.store(rt)
		if pair {
			in.Rt2 = rt2
			in.Read |= bit(rt2)
		}
		if w>>23&1 == 0 {
			in.Write |= bit(rs) // the status
		}
	}
}
