package x86

// Decode decodes the instruction at the start of b. It is false if b is cut
// inside the instruction, or if the bytes are no instruction.
func Decode(b []byte) (in Inst, ok bool) {
	ok = in.Decode(b)
	return in, ok
}

// Register-extension bits, in the layout that all encodings are brought to:
// bit 3 and bit 4 of the register number, ready to be or-ed.
type ext struct{ r, x, b uint8 }

// Decode is Decode into a value that the caller keeps; what in held before
// does not matter.
func (in *Inst) Decode(b []byte) bool {
	if len(b) > MaxLen {
		b = b[:MaxLen]
	}
	*in = Inst{Base: NoReg, Index: NoReg}
	var (
		i    int
		e    ext
		rex  byte
		fl   uint16
		size = false // 66 seen
	)
	// Prefixes. REX counts only directly before the opcode; a legacy prefix
	// behind it cancels it, and of several REX the last one wins.
	for {
		if i >= len(b) {
			return false
		}
		c := b[i]
		fl = tab0[c]
		if fl&fPrefix == 0 {
			break
		}
		i++
		if c&0xf0 == 0x40 {
			rex = c
			continue
		}
		rex = 0
		switch c {
		case 0x66:
			size = true
		case 0xf2:
			in.PP = PPF2
			in.Flags |= RepNE
		case 0xf3:
			in.PP = PPF3
			in.Flags |= Rep
		case 0x67:
			in.Flags |= AddrSize32
		case 0xf0:
			in.Flags |= Locked
		case 0x64:
			in.Flags = in.Flags&^SegGS | SegFS
		case 0x65:
			in.Flags = in.Flags&^SegFS | SegGS
		}
	}
	if size {
		in.Flags |= OpSize16
		if in.PP == PPNone {
			in.PP = PP66
		}
	}
	if rex != 0 {
		e = ext{rex << 1 & 8, rex << 2 & 8, rex << 3 & 8}
		in.Flags |= HasREX
		if rex&8 != 0 {
			in.Flags |= WideW
		}
	}
	op := b[i]
	i++
	if fl&fEscape != 0 {
		switch op {
		case 0x0f:
			if i >= len(b) {
				return false
			}
			op = b[i]
			i++
			switch op {
			case 0x38, 0x3a:
				if i >= len(b) {
					return false
				}
				in.Map = 2 + op>>1&1
				op = b[i]
				i++
				if fl = tab38[op]; in.Map == 3 {
					fl = tab3A[op]
				}
			case 0x0f:
				return in.now(b, i, e)
			default:
				in.Map = 1
				fl = tab1[op]
			}
		case 0xc4, 0xc5:
			return in.vex(b, i, op, rex)
		case 0x62:
			return in.evex(b, i, rex)
		case 0xd5:
			return in.rex2(b, i, rex)
		case 0x8f:
			if i < len(b) && b[i]&0x1f >= 8 {
				return in.xop(b, i, rex)
			}
		}
	}
	in.Op = op
	return in.legacy(b, i, fl, e)
}

// legacy finishes an instruction of maps 0 to 3 without VEX, EVEX or XOP; b[i]
// is the byte behind the opcode.
func (in *Inst) legacy(b []byte, i int, fl uint16, e ext) bool {
	if fl&fBad != 0 {
		return false
	}
	if fl&fModRM != 0 {
		if i = in.modrm(b, i, e, fl&fRegOnly != 0); i < 0 {
			return false
		}
	} else {
		in.Reg = e.b // push, pop, mov imm, bswap and xchg: see opReg
	}
	if fl&fSpecial != 0 {
		var ok bool
		if fl, ok = in.special(fl); !ok {
			return false
		}
	}
	if fl&fImm != 0 {
		if i = in.imm(b, i, fl); i < 0 {
			return false
		}
	}
	in.Len = uint8(i)
	return true
}

// modrm reads ModRM, SIB and displacement at b[i] and returns the offset
// behind them, or -1. With regOnly the operand is a register whatever mod
// says (moves to and from control registers).
func (in *Inst) modrm(b []byte, i int, e ext, regOnly bool) int {
	if i >= len(b) {
		return -1
	}
	m := b[i]
	i++
	in.ModRM = m
	in.Flags |= HasModRM
	in.Reg = m>>3&7 | e.r
	rm := m & 7
	if m >= 0xc0 || regOnly {
		in.RM = rm | e.b
		return i
	}
	in.Flags |= IsMem
	mod := m >> 6
	n := int(dispLen[mod])
	switch {
	case rm == 4:
		if i >= len(b) {
			return -1
		}
		sib := b[i]
		i++
		in.Scale = sib >> 6
		in.Index = sib>>3&7 | e.x
		if in.Index == 4 {
			in.Index = NoReg
		}
		in.Base = sib&7 | e.b
		if mod == 0 && sib&7 == 5 {
			in.Base = NoReg
			n = 4
		}
	case mod == 0 && rm == 5:
		in.Flags |= IsRIP
		n = 4
	default:
		in.Base = rm | e.b
	}
	if n == 0 {
		return i
	}
	if i+n > len(b) {
		return -1
	}
	in.DispOff, in.DispLen = uint8(i), uint8(n)
	if n == 1 {
		in.Disp = int32(int8(b[i]))
	} else {
		in.Disp = int32(le32(b[i:]))
	}
	return i + n
}

var dispLen = [4]uint8{0, 1, 4, 0}

// imm reads the immediate that fl describes at b[i] and returns the offset
// behind it, or -1.
func (in *Inst) imm(b []byte, i int, fl uint16) int {
	n := 0
	switch fl & fImm {
	case fI8:
		n = 1
	case fI16:
		n = 2
	case fI32:
		n = 4
	case fIZ:
		n = 4
		if in.Flags&(OpSize16|WideW) == OpSize16 {
			n = 2
		}
	case fIV:
		n = 4
		if in.Flags&WideW != 0 {
			n = 8
		} else if in.Flags&OpSize16 != 0 {
			n = 2
		}
	case fMoffs:
		n = 8
		if in.Flags&AddrSize32 != 0 {
			n = 4
		}
	case fI16I8:
		n = 3
	case fI64:
		n = 8
	case fI8I8:
		n = 2
	}
	if i+n > len(b) {
		return -1
	}
	if n == 0 {
		return i
	}
	in.ImmOff, in.ImmLen = uint8(i), uint8(n)
	switch n {
	case 1:
		in.Imm = int64(int8(b[i]))
	case 2:
		in.Imm = int64(int16(uint16(b[i]) | uint16(b[i+1])<<8))
	case 3:
		in.Imm = int64(uint32(b[i]) | uint32(b[i+1])<<8 | uint32(b[i+2])<<16)
	case 4:
		in.Imm = int64(int32(le32(b[i:])))
	case 8:
		in.Imm = int64(uint64(le32(b[i:])) | uint64(le32(b[i+4:]))<<32)
	}
	return i + n
}

func le32(b []byte) uint32 {
	_ = b[3]
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// now decodes 3DNow!: 0F 0F modrm suffix.
func (in *Inst) now(b []byte, i int, e ext) bool {
	in.Map = 15
	if i = in.modrm(b, i, e, false); i < 0 || i >= len(b) {
		return false
	}
	in.Op = b[i]
	in.Feat = TDNow
	in.Len = uint8(i + 1)
	return now[in.Op]
}

// now lists the suffixes that 3DNow! and its extensions define.
var now = bytesOf("0c-0d 1c-1d 86-87 8a 8e 90 94 96-97 9a 9e a0 a4 a6-a7 aa ae b0 b4 b6-b7 bb bf")
