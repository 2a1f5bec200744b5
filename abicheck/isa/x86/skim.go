package x86

// What says what Skim saw besides length and feature.
type What uint8

// The bits of What.
const (
	Vector   What = 1 << iota // VEX or EVEX
	Baseline                  // vector code of the baseline: see VectorOp
	Branch                    // a direct branch or call: rel is its displacement
	Relative                  // an operand relative to the next instruction: rel is its displacement
)

// Skim is Decode for a scan of much code: it tells the length of the
// instruction at the start of b, the feature it needs and what else a scan
// asks, without filling in an Inst. It knows the common encodings with one
// prefix beside REX. n is 0 for the rest, for what is no instruction, and for
// whatever a scan has to look at closely: Decode tells.
func Skim(b *[16]byte) (n int, what What, rel int32, feat Feat) {
	i := uint(1)
	c := b[0]
	e := skim0[c]
	wide := uint8(0) // as immSize has it
	if e&sOdd != 0 {
		if e == sVEX2 {
			return skimVEX2(b)
		}
		if e == sVEX3 {
			return skimVEX3(b)
		}
		if e == sEVEX {
			return skimEVEX(b)
		}
		if e == sPrefix {
			if c == 0x66 {
				wide = 1
			}
			c = b[1]
			e = skim0[c]
			i = 2
		}
		if e == sREX {
			if c&8 != 0 {
				wide = 2
			}
			c = b[i&15]
			e = skim0[c]
			i++
		}
		if e == sEscape {
			c = b[i&15]
			e = skim1[c]
			i++
		}
		if e&sOdd != 0 {
			return 0, 0, 0, 0
		}
	}
	what = What(e>>8) & Baseline
	if e&sModRM != 0 {
		m := b[i&15]
		l := modLen[m]
		if e&sGroup != 0 {
			k := groups[c][m>>3&7]
			if k == gSlow || l&mRIP != 0 && k == gNear || m >= 0xc0 && c == 0x8d || m == 0xf8 && c>>1 == 0x63 {
				return 0, 0, 0, 0
			}
			if k == gImm {
				e |= sZ // test; f6 is of bytes
				if c == 0xf6 {
					e = e&^(7<<4) | s1
				}
			}
		}
		i++
		if l&mRIP != 0 {
			what |= Relative
			rel = le32at(b, i)
		} else if l&mSIB != 0 && b[i&15]&7 == 5 {
			i += 4
		}
		i += uint(l & 7)
	}
	if e&sBranch != 0 {
		what |= Branch
		if e&(7<<4) == s1 {
			rel = int32(int8(b[i&15]))
		} else {
			rel = le32at(b, i)
		}
	}
	return int(i) + int(immSize[e>>4&7][wide]), what, rel, 0
}

// VectorOp reports whether op of map 0F is vector code that every x86-64
// processor has, or MMX.
func VectorOp(op byte) bool {
	return op >= 0x10 && op <= 0x17 || op >= 0x28 && op <= 0x2f || op >= 0x51 && op <= 0x7f && op != 0x77 || op >= 0xd0 && op != 0xff
}

func le32at(b *[16]byte, i uint) int32 {
	return int32(b[i&15]) | int32(b[(i+1)&15])<<8 | int32(b[(i+2)&15])<<16 | int32(b[(i+3)&15])<<24
}

// Bits of the entries of skim0 and skim1. Bits 4 to 6 index immSize.
const (
	sModRM  = 1 << 0
	sGroup  = 1 << 1 // groups decides by ModRM.reg
	sBranch = 1 << 2
	sOdd    = 1 << 3 // none of the above: the whole entry is one of the next
	s1      = 1 << 4
	s2      = 2 << 4
	s4      = 3 << 4
	sZ      = 4 << 4
	sV      = 5 << 4
	s8      = 6 << 4
	sSSE    = uint16(Baseline) << 8

	sSlow   = sOdd
	sPrefix = sOdd | 1<<12
	sREX    = sOdd | 2<<12
	sEscape = sOdd | 3<<12
	sVEX2   = sOdd | 4<<12
	sVEX3   = sOdd | 5<<12
	sEVEX   = sOdd | 6<<12
)

// immSize is the size of an immediate: with operands of 32 bits, with the
// prefix 66, and with REX.W, which wins.
var immSize = [8][4]uint8{s1 >> 4: {1, 1, 1}, s2 >> 4: {2, 2, 2}, s4 >> 4: {4, 4, 4}, sZ >> 4: {4, 2, 4}, sV >> 4: {4, 2, 8}, s8 >> 4: {8, 8, 8}}

// What groups says of an opcode whose meaning depends on ModRM.reg.
const (
	gSlow  = iota
	gPlain // no more than its length
	gImm   // it has an immediate
	gNear  // a call or jump through a register or memory, which matters where that has an address
)

var groups = [256][8]uint8{
	0x8d: {gPlain, gPlain, gPlain, gPlain, gPlain, gPlain, gPlain, gPlain},
	0xc6: {gPlain},
	0xc7: {gPlain},
	0xf6: {gImm, gImm, gPlain, gPlain, gPlain, gPlain, gPlain, gPlain},
	0xf7: {gImm, gImm, gPlain, gPlain, gPlain, gPlain, gPlain, gPlain},
	0xfe: {gPlain, gPlain},
	0xff: {0: gPlain, 1: gPlain, 2: gNear, 4: gNear, 6: gPlain},
}

// modLen is what follows a ModRM byte, SIB and displacement, in bytes.
var modLen = func() (t [256]uint8) {
	for m := range t {
		mod, rm := m>>6, m&7
		if mod == 3 {
			continue
		}
		t[m] = dispLen[mod]
		switch {
		case rm == 4:
			t[m]++
			if mod == 0 {
				t[m] |= mSIB
			}
		case mod == 0 && rm == 5:
			t[m] = 4 | mRIP
		}
	}
	return t
}()

const (
	mSIB = 0x40 // four bytes more where the base of SIB is 5
	mRIP = 0x80
)

// skim0 and skim1 are what tab0 and tab1 say of the encodings without
// exceptions.
var (
	skim0 = skimTable(&tab0, func(op int) uint16 {
		switch {
		case op >= 0x70 && op <= 0x7f, op >= 0xe0 && op <= 0xe3, op == 0xeb:
			return s1 | sBranch
		case op == 0xe8, op == 0xe9:
			return s4 | sBranch
		case op == 0xc3, op == 0xcc:
			return 0
		case op == 0x8d, op == 0xf6, op == 0xf7, op == 0xfe, op == 0xff:
			return sModRM | sGroup
		case op == 0xc6:
			return sModRM | sGroup | s1
		case op == 0xc7:
			return sModRM | sGroup | sZ
		case op == 0x66, op == 0xf2, op == 0xf3:
			return sPrefix
		case op>>4 == 4:
			return sREX
		case op == 0x0f:
			return sEscape
		case op == 0xc5:
			return sVEX2
		case op == 0xc4:
			return sVEX3
		case op == 0x62:
			return sEVEX
		}
		return sSlow
	})
	skim1 = skimTable(&tab1, func(op int) uint16 {
		switch {
		case op >= 0x80 && op <= 0x8f:
			return s4 | sBranch
		case op == 0xbe, op == 0xbf:
			return sModRM
		}
		return sSlow
	})
)

// skimTable makes a table of what needs no look at more than the entry of its
// opcode; odd has the rest.
func skimTable(tab *[256]uint16, odd func(op int) uint16) (t [256]uint16) {
	for op, fl := range tab {
		imm, ok := map[uint16]uint16{0: 0, fI8: s1, fI16: s2, fI32: s4, fIZ: sZ, fIV: sV, fMoffs: s8}[fl&fImm]
		if fl&^(fModRM|fImm) != 0 || !ok || tab == &tab1 && op == 0xa2 {
			t[op] = odd(op)
			continue
		}
		t[op] = imm
		if fl&fModRM != 0 {
			t[op] |= sModRM
		}
		if tab == &tab1 && VectorOp(byte(op)) {
			t[op] |= sSSE
		}
	}
	return t
}

func skimVEX2(b *[16]byte) (n int, what What, rel int32, feat Feat) {
	p, op := b[1], b[2]
	feat = classes[vexMaps[1][p&3][op]].feat[p>>1&2]
	if feat == 0 {
		return 0, 0, 0, 0
	}
	if op == 0x77 {
		return 3, Vector, 0, feat
	}
	n, what, rel = skimTail(b, 3, immVEX1[op])
	return n, what, rel, feat
}

func skimVEX3(b *[16]byte) (n int, what What, rel int32, feat Feat) {
	m, p, op := b[1]&31, b[2], b[3]
	if m-1 > 2 || op == 0x77 {
		return 0, 0, 0, 0
	}
	c := &classes[vexMaps[m][p&3][op]]
	feat = c.feat[p>>1&2|p>>7]
	if feat == 0 || c.kind == kMem {
		return 0, 0, 0, 0
	}
	if c.kind == kBcast && b[4] >= 0xc0 {
		feat = AVX2
	}
	n, what, rel = skimTail(b, 4, m == 3 || m == 1 && immVEX1[op])
	return n, what, rel, feat
}

func skimEVEX(b *[16]byte) (n int, what What, rel int32, feat Feat) {
	m, p, q, op := b[1]&15, b[2], b[3], b[4]
	// Bit 3 of the map, and bit 2 behind it as zero, are of APX.
	if m > 6 || p&4 == 0 || evexMaps[m] == nil || m == 1 && op == 0x73 {
		return 0, 0, 0, 0
	}
	l := q >> 5 & 3
	w := p >> 7
	if l != 0 {
		w |= 2
	}
	c := &classes[evexMaps[m][p&3][op]]
	feat = c.feat[w]
	if feat == 0 {
		return 0, 0, 0, 0
	}
	if c.kind == kVector && (q&0x10 == 0 || b[5] < 0xc0) {
		if l == 3 {
			return 0, 0, 0, 0
		}
		if l != 2 {
			feat |= AVX512VL
		}
	}
	n, what, rel = skimTail(b, 5, m == 3 || m == 1 && immVEX1[op])
	return n, what, rel, feat
}

// skimTail skims ModRM at b[i], and a byte behind it if imm says so.
func skimTail(b *[16]byte, i uint, imm bool) (n int, what What, rel int32) {
	l := modLen[b[i&15]]
	i++
	what = Vector
	if l&mRIP != 0 {
		what |= Relative
		rel = le32at(b, i)
	} else if l&mSIB != 0 && b[i&15]&7 == 5 {
		i += 4
	}
	i += uint(l & 7)
	if imm {
		i++
	}
	return int(i), what, rel
}
