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
