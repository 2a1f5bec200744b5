package x86

func (in *Inst) effects1(e *Effects) {
	op := in.Op
	ext := in.ModRM >> 3 & 7
	reg := uint32(1) << (in.Reg & 31)
	switch {
	case op == 0x05:
		e.Read |= rAX
		e.Write |= rAX | rCX | 1<<11
	case op == 0x01 && !in.Mem():
		e.Read |= rCX
		e.Write |= rAX | rDX
		if in.ModRM == 0xf9 {
			e.Write |= rCX
		}
	case op == 0x31 || op == 0x33:
		e.Write |= rAX | rDX
	case op == 0xa2:
		e.Read |= rAX | rCX
		e.Write |= rAX | rBX | rCX | rDX
	case op >= 0x40 && op <= 0x4f:
		e.FlagRead = true
		in.readRM(e, false)
		e.Read |= reg
		e.Write |= reg
	case op >= 0x80 && op <= 0x8f:
		e.FlagRead = true
	case op >= 0x90 && op <= 0x9f:
		e.FlagRead = true
		in.writeRM(e, true)
	case op == 0xa3 || op == 0xba && ext == 4:
		in.readRM(e, false)
		if op == 0xa3 {
			e.Read |= reg
		}
		e.FlagWrite = true
	case op == 0xab || op == 0xb3 || op == 0xbb || op == 0xba || op == 0xa4 || op == 0xa5 || op == 0xac || op == 0xad:
		in.readRM(e, false)
		if op != 0xba {
			e.Read |= reg
		}
		in.writeRM(e, false)
		e.FlagWrite = true
	case op == 0xaf:
		in.readRM(e, false)
		e.Read |= reg
		e.Write |= reg
		e.FlagWrite = true
	case op == 0xb0 || op == 0xb1:
		in.readRM(e, op == 0xb0)
		e.Read |= reg | rAX
		in.writeRM(e, op == 0xb0)
		e.Write |= rAX
		e.FlagWrite = true
	case op == 0xb6 || op == 0xb7 || op == 0xbe || op == 0xbf:
		in.readRM(e, op&1 == 0)
		e.Write |= reg
	case op == 0xb8 || op == 0xbc || op == 0xbd:
		in.readRM(e, false)
		e.Write |= reg
		e.FlagWrite = true
	case op == 0xc0 || op == 0xc1:
		in.readRM(e, op == 0xc0)
		in.writeRM(e, op == 0xc0)
		e.Read |= in.gprBit(in.Reg, op == 0xc0)
		e.Write |= in.gprBit(in.Reg, op == 0xc0)
		e.FlagWrite = true
	case op == 0xc3:
		e.Read |= reg
		e.MemWrite = true
	case op == 0xc7:
		e.FlagWrite = true
		if in.Mem() {
			e.Read |= rAX | rBX | rCX | rDX
			e.Write |= rAX | rDX
			e.MemRead, e.MemWrite = true, true
		} else {
			e.Write |= 1 << (in.RM & 31)
		}
	case op >= 0xc8 && op <= 0xcf:
		n := in.opReg()
		e.Read |= 1 << n
		e.Write |= 1 << n
	case op == 0x2c || op == 0x2d || op == 0x50 || op == 0xd7 || op == 0xc5:
		e.MemRead = in.Mem()
		if in.PP >= PPF3 || op == 0x50 || op == 0xd7 || op == 0xc5 {
			e.Write |= reg
		}
	case op == 0x2a || op == 0x6e || op == 0xc4:
		in.readRM(e, false)
	case op == 0x7e && in.PP != PPF3:
		in.writeRM(e, false)
	case op == 0x2e || op == 0x2f:
		e.MemRead = in.Mem()
		e.FlagWrite = true
	case op == 0x11 || op == 0x13 || op == 0x17 || op == 0x29 || op == 0x2b || op == 0x7f || op == 0xd6 || op == 0xe7:
		e.MemWrite = in.Mem()
	case op == 0xf7:
		e.Read |= rDI
		e.MemWrite = true
	case op == 0xae:
		e.MemRead = in.Mem()
		e.MemWrite = in.Mem() && (ext == 0 || ext == 3 || ext == 4 || ext == 6)
	default:
		e.MemRead = in.Mem()
	}
}

func (in *Inst) effects38(e *Effects) {
	reg := uint32(1) << (in.Reg & 31)
	e.MemRead = in.Mem()
	switch {
	case in.Map == 2 && in.Op == 0xf0, in.Map == 2 && in.Op == 0xf1 && in.Flags&RepNE != 0, in.Map == 2 && in.Op == 0xf6:
		in.readRM(e, false)
		e.Read |= reg
		e.Write |= reg
		e.FlagWrite, e.FlagRead = in.Op == 0xf6, in.Op == 0xf6
	case in.Map == 2 && in.Op == 0xf1, in.Map == 2 && in.Op >= 0xf8:
		e.Read |= reg
		e.MemWrite = true
	case in.Map == 2 && in.Op == 0x17, in.Map == 3 && in.Op >= 0x60 && in.Op <= 0x63:
		e.FlagWrite = true
		if in.Map == 3 {
			e.Read |= rAX | rDX
			e.Write |= rCX
		}
	case in.Map == 3 && in.Op >= 0x14 && in.Op <= 0x17:
		in.writeRM(e, false)
	case in.Map == 3 && in.Op >= 0x20 && in.Op <= 0x22:
		in.readRM(e, false)
	}
}

// apxEffects covers map 4 broadly.
func (in *Inst) apxEffects(e *Effects) {
	in.readRM(e, false)
	in.writeRM(e, false)
	e.Read |= 1 << (in.Reg & 31)
	e.Write |= 1<<(in.Reg&31) | 1<<(in.V&31)
	e.FlagRead = true
	e.FlagWrite = in.Flags&NoFlags == 0
}
