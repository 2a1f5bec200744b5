package x86

// Effects are what an instruction touches, as far as a walk over dispatch code
// has to know. Register sets are bits by number: 0 rax, 1 rcx, ... 31 r31.
// Vector and mask registers are left out.
type Effects struct {
	Read, Write uint32 // general registers, address registers included in Read
	MemRead     bool
	MemWrite    bool
	FlagRead    bool
	FlagWrite   bool
	Stack       bool // moves rsp: push, pop, call, ret, enter, leave
}

const (
	rAX = 1 << 0
	rCX = 1 << 1
	rDX = 1 << 2
	rBX = 1 << 3
	rSI = 1 << 6
	rDI = 1 << 7
)

// Effects describes in. Where an encoding is rare it claims too much rather
// than too little: a write that does not happen only ends knowledge.
func (in *Inst) Effects() Effects {
	var e Effects
	if in.Mem() {
		if in.Base != NoReg {
			e.Read |= 1 << (in.Base & 31)
		}
		if in.Index != NoReg {
			e.Read |= 1 << (in.Index & 31)
		}
	}
	switch {
	case in.Enc == EncVEX || in.Enc == EncXOP || in.Enc == EncEVEX && in.Map != 4:
		in.vectorEffects(&e)
	case in.Enc == EncEVEX:
		in.apxEffects(&e)
	case in.Map == 0:
		in.effects0(&e)
	case in.Map == 1:
		in.effects1(&e)
	default:
		in.effects38(&e)
	}
	return e
}

// gprReg and gprRM are bits of the register operands; a byte register above bl
// without REX is the high half of the first four.
func (in *Inst) gprBit(n uint8, byteOp bool) uint32 {
	if byteOp && in.Flags&HasREX == 0 && n >= 4 && n < 8 && in.Enc == EncLegacy {
		n -= 4
	}
	return 1 << (n & 31)
}

func (in *Inst) readRM(e *Effects, byteOp bool) {
	if in.Mem() {
		e.MemRead = true
	} else {
		e.Read |= in.gprBit(in.RM, byteOp)
	}
}

func (in *Inst) writeRM(e *Effects, byteOp bool) {
	if in.Mem() {
		e.MemWrite = true
	} else {
		e.Write |= in.gprBit(in.RM, byteOp)
	}
}

func (in *Inst) effects0(e *Effects) {
	op := in.Op
	byteOp := op&1 == 0
	reg := in.gprBit(in.Reg, byteOp)
	ext := in.ModRM >> 3 & 7
	switch {
	case op < 0x40: // the eight classic operations
		e.FlagWrite = true
		kind := op >> 3 & 7
		e.FlagRead = kind == 2 || kind == 3
		cmp := kind == 7
		switch op & 7 {
		case 0, 1:
			in.readRM(e, byteOp)
			e.Read |= reg
			if !cmp {
				in.writeRM(e, byteOp)
			}
		case 2, 3:
			in.readRM(e, byteOp)
			e.Read |= reg
			if !cmp {
				e.Write |= reg
			}
		default:
			e.Read |= rAX
			if !cmp {
				e.Write |= rAX
			}
		}
	case op >= 0x50 && op <= 0x57:
		e.Read |= 1 << in.opReg()
		e.Stack, e.MemWrite = true, true
	case op >= 0x58 && op <= 0x5f:
		e.Write |= 1 << in.opReg()
		e.Stack, e.MemRead = true, true
	case op == 0x63:
		in.readRM(e, false)
		e.Write |= in.gprBit(in.Reg, false)
	case op == 0x68 || op == 0x6a:
		e.Stack, e.MemWrite = true, true
	case op == 0x69 || op == 0x6b:
		in.readRM(e, false)
		e.Write |= in.gprBit(in.Reg, false)
		e.FlagWrite = true
	case op >= 0x6c && op <= 0x6f, op >= 0xa4 && op <= 0xa7, op >= 0xaa && op <= 0xaf:
		e.Read |= rAX | rCX | rSI | rDI
		e.Write |= rCX | rSI | rDI
		e.MemRead, e.MemWrite = true, true
		if op >= 0xac && op <= 0xad {
			e.Write |= rAX
		}
		e.FlagWrite = op == 0xa6 || op == 0xa7 || op >= 0xae
	case op >= 0x70 && op <= 0x7f:
		e.FlagRead = true
	case op >= 0x80 && op <= 0x83:
		in.readRM(e, byteOp)
		e.FlagWrite = true
		e.FlagRead = ext == 2 || ext == 3
		if ext != 7 {
			in.writeRM(e, byteOp)
		}
	case op == 0x84 || op == 0x85:
		in.readRM(e, byteOp)
		e.Read |= reg
		e.FlagWrite = true
	case op == 0x86 || op == 0x87:
		in.readRM(e, byteOp)
		in.writeRM(e, byteOp)
		e.Read |= reg
		e.Write |= reg
	case op == 0x88 || op == 0x89:
		e.Read |= reg
		in.writeRM(e, byteOp)
	case op == 0x8a || op == 0x8b:
		in.readRM(e, byteOp)
		e.Write |= reg
	case op == 0x8c:
		in.writeRM(e, false)
	case op == 0x8d:
		e.Write |= in.gprBit(in.Reg, false)
	case op == 0x8f:
		e.Stack, e.MemRead = true, true
		in.writeRM(e, false)
	case op >= 0x90 && op <= 0x97:
		r := uint32(1) << in.opReg()
		if op != 0x90 || r != rAX {
			e.Read |= r | rAX
			e.Write |= r | rAX
		}
	case op == 0x98:
		e.Read |= rAX
		e.Write |= rAX
	case op == 0x99:
		e.Read |= rAX
		e.Write |= rDX
	case op == 0x9c:
		e.FlagRead, e.Stack, e.MemWrite = true, true, true
	case op == 0x9d:
		e.FlagWrite, e.Stack, e.MemRead = true, true, true
	case op == 0x9e:
		e.Read |= rAX
		e.FlagWrite = true
	case op == 0x9f:
		e.FlagRead = true
		e.Write |= rAX
	case op == 0xa0 || op == 0xa1:
		e.MemRead = true
		e.Write |= rAX
	case op == 0xa2 || op == 0xa3:
		e.MemWrite = true
		e.Read |= rAX
	case op == 0xa8 || op == 0xa9:
		e.Read |= rAX
		e.FlagWrite = true
	case op >= 0xb0 && op <= 0xbf:
		n := in.opReg()
		if op < 0xb8 {
			e.Write |= in.gprBit(n, true)
			e.Read |= in.gprBit(n, true)
		} else {
			e.Write |= 1 << n
		}
	case op == 0xc0 || op == 0xc1 || op >= 0xd0 && op <= 0xd3:
		in.readRM(e, byteOp)
		in.writeRM(e, byteOp)
		if op >= 0xd2 {
			e.Read |= rCX
		}
		e.FlagWrite = true
		e.FlagRead = ext == 2 || ext == 3
	case op == 0xc6 || op == 0xc7:
		in.writeRM(e, byteOp)
	case op == 0xc8 || op == 0xc9:
		e.Stack, e.MemWrite = true, op == 0xc8
		e.Read |= 1<<5 | 1<<4
		e.Write |= 1<<5 | 1<<4
	case op == 0xd7:
		e.Read |= rAX | rBX
		e.Write |= rAX
		e.MemRead = true
	case op >= 0xd8 && op <= 0xdf:
		e.MemRead, e.MemWrite = in.Mem(), in.Mem() && op&1 == 1
		if op == 0xdf && in.ModRM == 0xe0 {
			e.Write |= rAX
		}
		e.FlagWrite = !in.Mem() && (op == 0xdb || op == 0xdf)
	case op >= 0xe0 && op <= 0xe3:
		e.Read |= rCX
		e.FlagRead = op < 0xe2
		if op != 0xe3 {
			e.Write |= rCX
		}
	case op == 0xe8 || op == 0xc2 || op == 0xc3:
		e.Stack = true
	case op == 0xf6 || op == 0xf7:
		in.readRM(e, byteOp)
		e.FlagWrite = ext != 2
		switch {
		case ext == 2 || ext == 3:
			in.writeRM(e, byteOp)
		case ext >= 4:
			e.Read |= rAX | rDX
			e.Write |= rAX
			if !byteOp {
				e.Write |= rDX
			}
		}
	case op == 0xf5 || op == 0xf8 || op == 0xf9:
		e.FlagWrite = true
	case op == 0xfe || op == 0xff:
		in.readRM(e, byteOp)
		if ext < 2 {
			in.writeRM(e, byteOp)
			e.FlagWrite = true
		} else {
			e.Stack = ext == 2 || ext == 6
		}
	}
}

// opReg is the register in the low bits of the opcode. Its extension bit is
// only kept by the prefix, so Reg holds it for these opcodes.
func (in *Inst) opReg() uint8 { return in.Op&7 | in.Reg }

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

// storesVEX are the stores of VEX and EVEX maps 1 to 3, and those that write a
// general register through ModRM.rm.
var storesVEX = [4][256]bool{
	1: bytesOf("11 13 17 29 2b 7e 7f 91 d6 e7 f7"),
	2: bytesOf("11-15 21-25 31-35 10 20 30 2e 2f 63 8a 8b 8e a0-a3"),
	3: bytesOf("14-17 19 1b 1d 39 3b"),
}

// movesTo are VEX and EVEX opcodes that write the general register ModRM.reg.
var movesTo = [4][256]bool{
	1: bytesOf("2c 2d 50 78 79 93 c5 d7"),
	2: bytesOf("f2 f5 f6 f7"),
	3: bytesOf("f0"),
}

func (in *Inst) vectorEffects(e *Effects) {
	e.MemRead = in.Mem()
	if in.Map < 4 {
		if storesVEX[in.Map][in.Op] && !(in.Map == 2 && in.Enc == EncEVEX && in.Op < 0x40 && in.PP != PPF3) {
			in.writeRM(e, false)
		}
		if movesTo[in.Map][in.Op] {
			e.Write |= 1 << (in.Reg & 31)
		}
		if in.Map == 2 && in.Op >= 0xf2 && in.Op <= 0xf7 || in.Map == 3 && in.Op == 0xf0 || in.Map == 1 && (in.Op == 0x6e || in.Op == 0x92 || in.Op == 0x2a || in.Op == 0x7b) {
			in.readRM(e, false)
		}
		switch {
		case in.Map == 2 && in.Op >= 0xf2 && in.Op <= 0xf7:
			e.Read |= 1 << (in.V & 31)
			if in.Op == 0xf3 || in.Op == 0xf6 {
				e.Write |= 1 << (in.V & 31)
			}
			if in.Op == 0xf6 {
				e.Read |= rDX
			}
			e.FlagWrite = in.Op != 0xf6 && !(in.Op == 0xf7 && in.PP != PPNone) && !(in.Op == 0xf5 && in.PP != PPNone)
		case in.Map == 1 && (in.Op == 0x2e || in.Op == 0x2f || in.Op == 0x98 || in.Op == 0x99),
			in.Map == 2 && (in.Op == 0x17 || in.Op == 0x0e || in.Op == 0x0f):
			e.FlagWrite = true
		case in.Map == 3 && in.Op >= 0x60 && in.Op <= 0x63:
			e.FlagWrite = true
			e.Write |= rCX
		case in.Map == 2 && in.Op >= 0xe0 && in.Op <= 0xef: // cmpccxadd
			e.Read |= 1<<(in.Reg&31) | 1<<(in.V&31)
			e.Write |= 1 << (in.Reg & 31)
			e.MemWrite, e.FlagWrite = true, true
		}
	}
	if in.Enc == EncXOP && (in.Feat&TBM != 0) {
		in.readRM(e, false)
		e.Write |= 1<<(in.Reg&31) | 1<<(in.V&31)
		e.FlagWrite = true
	}
}
