package x86

const avxFMA = AVX | FMA

// vexMaps holds the VEX opcodes of maps 1, 2, 3, 5 and 7.
var vexMaps = [8]*classMap{
	1: classify([]rule{
		{"-632", "10-12 51 58-5a 5c-5f c2", all(AVX)},
		{"-6", "13-15 17 28 29 2b 2e 2f 50 54-57 c6", all(AVX)},
		{"-63", "16 5b", all(AVX)},
		{"32", "2a 2c 2d", all(AVX)},
		{"-3", "52 53", all(AVX)},
		{"-", "77 ae", all(AVX)},
		{"62", "7c 7d d0", all(AVX)},
		{"6", "6e c4 c5 e7 f7", all(AVX)},
		{"63", "6f 7e 7f", all(AVX)},
		{"632", "e6", all(AVX)},
		{"2", "f0", all(AVX)},
		{"6", "d6", all(AVX)},
		{"6", "60-6d 71-76 d1-d5 d7-e5 e8-ef f1-f6 f8-fe", byL(AVX, AVX2)},
		{"632", "70", byL(AVX, AVX2)},
		// Mask registers: b is DQ, w is F, d and q are BW.
		{"-", "41 42 44-47", byW(AVX512F, AVX512BW)},
		{"6", "41 42 44-47", byW(AVX512DQ, AVX512BW)},
		{"-6", "4a", byW(AVX512DQ, AVX512BW)},
		{"-", "4b", all(AVX512BW)},
		{"6", "4b", byW(AVX512F, 0)},
		{"-", "90-91 98", byW(AVX512F, AVX512BW)},
		{"6", "90-91 98", byW(AVX512DQ, AVX512BW)},
		{"-", "92 93", byW(AVX512F, 0)},
		{"6", "92 93", byW(AVX512DQ, 0)},
		{"2", "92 93", all(AVX512BW)},
		{"-6", "99", byW(AVX512DQ, AVX512BW)},
	}),
	2: classify([]rule{
		{"6", "00-0b 1c-1e 20-25 28-2b 30-35 37-40", byL(AVX, AVX2)},
		{"6", "0c-0f 17 1a 2c-2f 41", all(AVX)},
		{"6", "13", all(AVX | F16C)},
		{"6", "16 36 45-47 58 59 5a 78 79 8c 8e 90-93", all(AVX2)},
		{"6", "18 19", class{feat: all(AVX).feat, kind: kBcast}},
		{"-62", "49", gpr(AMX)},
		{"632", "4b 4a", gpr(AMX)},
		{"-632", "48 5c 5e 5f 6b 6c 6e 6f", gpr(AMX)},
		{"6", "50-53", all(AVXVNNI)},
		{"-32", "50 51", all(AVXVNNIInt)},
		{"3", "72", all(AVXNEConvert)},
		{"632", "b1", all(AVXNEConvert)},
		{"-632", "b0", all(AVXNEConvert)},
		{"6", "b4 b5", byW(0, AVXIFMA)},
		{"-63", "d2 d3", all(AVXVNNIInt)},
		{"6", "96-9f a6-af b6-bf", all(avxFMA)},
		{"2", "cb-cd", byL(0, SHA512)},
		{"6", "cf", all(AVX | GFNI)},
		{"-632", "da", all(SM)},
		{"6", "db", all(AVX | AES)},
		{"6", "dc-df", byL(AVX|AES, VAES)},
		{"6", "e0-ef", class{feat: all(CMPCCXADD).feat, kind: kMem}},
		{"-", "f2 f3 f7", gpr(BMI1)},
		{"-32", "f5", gpr(BMI2)},
		{"2", "f6", gpr(BMI2)},
		{"632", "f7", gpr(BMI2)},
	}),
	3: classify([]rule{
		{"6", "00 01", byW(0, AVX2)},
		{"6", "02 38 39 46", all(AVX2)},
		{"6", "04-06 08-0d 14-19 20-22 40 41 4a 4b 60-63", all(AVX)},
		{"6", "0e 0f 42 4c", byL(AVX, AVX2)},
		{"6", "1d", all(AVX | F16C)},
		{"6", "30 32", byW(AVX512DQ, AVX512F)},
		{"6", "31 33", all(AVX512BW)},
		{"6", "44", byL(AVX|PCLMUL, VPCLMUL)},
		{"6", "48 49", all(XOP)},
		{"6", "5c-5f 68-6f 78-7f", all(FMA4)},
		{"6", "ce cf", byW(0, AVX|GFNI)},
		{"6", "de", all(SM)},
		{"6", "df", all(AVX | AES)},
		{"2", "f0", gpr(BMI2)},
	}),
	5: classify([]rule{
		{"-6", "f8 f9", gpr(AMX)},
		{"-632", "fd", gpr(AMX)},
	}),
	7: classify([]rule{
		{"32", "f6 f8", gpr(Misc)}, // rdmsr, wrmsrns, urdmsr and uwrmsr by immediate
	}),
}

// immVEX1 are the opcodes of VEX and EVEX map 1 with an immediate byte.
var immVEX1 = bytesOf("70-73 c2 c4-c6")

// vex decodes behind C4 or C5 at b[i-1].
func (in *Inst) vex(b []byte, i int, lead, rex byte) bool {
	// A REX or a mandatory prefix before VEX is undefined.
	if rex != 0 || in.PP != PPNone || in.Flags&(OpSize16|Locked) != 0 || i+2 > len(b) {
		return false
	}
	in.Enc = EncVEX
	p := b[i]
	i++
	e := ext{r: ^p >> 4 & 8}
	in.Map = 1
	if lead == 0xc4 {
		e.x, e.b = ^p>>3&8, ^p>>2&8
		in.Map = p & 0x1f
		p = b[i]
		i++
		if p&0x80 != 0 {
			in.Flags |= WideW
		}
	}
	if i >= len(b) || in.Map > 7 || vexMaps[in.Map] == nil {
		return false
	}
	in.PP = p & 3
	in.L = p >> 2 & 1
	in.V = ^p >> 3 & 15
	in.Op = b[i]
	i++
	c := &classes[vexMaps[in.Map][in.PP][in.Op]]
	n := int(in.L) << 1
	if in.Flags&WideW != 0 {
		n |= 1
	}
	in.Feat = c.feat[n]
	if in.Feat == 0 {
		return false
	}
	if in.Map != 1 || in.Op != 0x77 {
		if i = in.modrm(b, i, e, false); i < 0 {
			return false
		}
		if c.kind == kBcast && !in.Mem() {
			in.Feat = AVX2
		} else if c.kind == kMem && !in.Mem() {
			return false
		}
	}
	return in.tail(b, i)
}

// tail reads the immediate of a VEX or EVEX instruction outside map 4.
func (in *Inst) tail(b []byte, i int) bool {
	switch {
	case in.Map == 1 && immVEX1[in.Op], in.Map == 3:
		i = in.imm(b, i, fI8)
	case in.Map == 7:
		i = in.imm(b, i, fI32)
	}
	if i < 0 {
		return false
	}
	in.Len = uint8(i)
	return true
}

// xop decodes behind 8F at b[i-1].
func (in *Inst) xop(b []byte, i int, rex byte) bool {
	if rex != 0 || in.PP != PPNone || in.Flags&(OpSize16|Locked) != 0 || i+3 > len(b) {
		return false
	}
	in.Enc = EncXOP
	p, q := b[i], b[i+1]
	in.Map, in.Op = p&0x1f, b[i+2]
	i += 3
	if q&0x80 != 0 {
		in.Flags |= WideW
	}
	in.PP, in.L, in.V = q&3, q>>2&1, ^q>>3&15
	if in.PP != 0 {
		return false
	}
	if i = in.modrm(b, i, ext{^p >> 4 & 8, ^p >> 3 & 8, ^p >> 2 & 8}, false); i < 0 {
		return false
	}
	in.Feat = XOP
	switch in.Map {
	case 8:
		if !xop8[in.Op] {
			return false
		}
		i = in.imm(b, i, fI8)
	case 9:
		switch {
		case in.Op == 1 || in.Op == 2:
			in.Feat = TBM
		case in.Op == 0x12:
			in.Feat = LWP
		case !xop9[in.Op]:
			return false
		}
	case 10:
		switch in.Op {
		case 0x10:
			in.Feat = TBM
		case 0x12:
			in.Feat = LWP
		default:
			return false
		}
		i = in.imm(b, i, fI32)
	default:
		return false
	}
	if i < 0 {
		return false
	}
	in.Len = uint8(i)
	return true
}

var (
	xop8 = bytesOf("85-87 8e 8f 95-97 9e 9f a2 a3 a6 b6 c0-c3 cc-cf ec-ef")
	xop9 = bytesOf("01 02 12 80-83 90-9b c1-c3 c6 c7 cb d1-d3 d6 d7 db e1-e3")
)

// rex2 decodes behind D5 at b[i-1].
func (in *Inst) rex2(b []byte, i int, rex byte) bool {
	if rex != 0 || i+2 > len(b) {
		return false
	}
	p := b[i]
	in.Enc = EncREX2
	in.Flags |= HasREX
	if p&8 != 0 {
		in.Flags |= WideW
	}
	in.Op = b[i+1]
	i += 2
	e := ext{r: p<<1&8 | p>>2&16, x: p<<2&8 | p>>1&16, b: p<<3&8 | p&16}
	var fl uint16
	if p&0x80 != 0 {
		in.Map = 1
		fl = tab1[in.Op]
		if in.Op&0xf0 == 0x30 || in.Op&0xf0 == 0x80 {
			return false
		}
	} else {
		fl = tab0[in.Op]
		switch in.Op & 0xf0 {
		case 0x40, 0x70, 0xa0, 0xe0:
			if in.Op != 0xa1 {
				return false
			}
			in.Flow = FlowJmpInd // jmpabs: the target is absolute
			fl = fI64
		}
		if fl&fPrefix != 0 || fl&fEscape != 0 && in.Op != 0x8f {
			return false
		}
	}
	if !in.legacy(b, i, fl, e) {
		return false
	}
	in.Feat |= APX
	return true
}
