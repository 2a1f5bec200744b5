package x86

const (
	fBW   = AVX512F | AVX512BW
	fDQ   = AVX512F | AVX512DQ
	fCD   = AVX512F | AVX512CD
	fFP16 = AVX512F | AVX512FP16
)

// evexMaps holds the EVEX opcodes of maps 1, 2, 3, 5, 6 and 7; map 4 (APX) has
// the shapes of legacy opcodes and stands in apx.go.
var evexMaps = [8]*classMap{
	1: classify([]rule{
		{"-6", "10 11 14 15 28 29 2b 51 58 59 5c-5f c2 c6", all(AVX512F)},
		{"32", "10 11 2a 2c 2d 51 58-5a 5c-5f 78 79 7b c2", scalar(AVX512F)},
		{"-6", "12 13 16 17 2e 2f", scalar(AVX512F)},
		{"32", "12", all(AVX512F)},
		{"3", "16", all(AVX512F)},
		{"32", "2e 2f", scalar(AVX10)},
		{"-6", "54-57", all(fDQ)},
		{"-6", "5a", all(AVX512F)},
		{"-", "5b", byW(AVX512F, fDQ)},
		{"63", "5b", all(AVX512F)},
		{"6", "60 61 63-65 67-69 6b 74 75 d1 d5 d8 d9 da dc-de e0 e1 e3-e5 e8-ea ec-ee f1 f5 f6 f8 f9 fc fd", all(fBW)},
		{"6", "62 66 6a 6c 6d 70 72 76 d2-d4 db df e2 e7 eb ef f2-f4 fa fb fe", all(AVX512F)},
		{"6", "71", all(fBW)},
		{"6", "73", all(AVX512F)}, // by ModRM.reg: shifts of bytes need BW
		{"32", "70", all(fBW)},
		{"6", "6e d6", scalar(AVX512F)},
		{"63", "7e", scalar(AVX512F)},
		{"63", "6f 7f", all(AVX512F)},
		{"2", "6f 7f", all(fBW)},
		{"-", "78 79", all(AVX512F)},
		{"6", "78 79 7b", all(fDQ)},
		{"6", "7a", all(fDQ)},
		{"32", "7a", byW(AVX512F, fDQ)},
		{"6", "c4 c5", scalar(fBW)},
		{"3", "e6", byW(AVX512F, fDQ)},
		{"62", "e6", all(AVX512F)},
		{"-632", "6c 6d", all(AVX10)}, // saturating conversions
		{"6", "6c 6d", byW(AVX10, AVX512F)},
		{"3", "d6", scalar(AVX10)},
	}),
	2: classify([]rule{
		{"6", "00 04 0b 10-12 1c 1d 2b 38 3a 3c 3e 7a 7b 78 79 66", all(fBW)},
		{"6", "0c 0d 13-16 18 1e 1f 21-25 28 29 2a 2c 31-37 39 3b 3d 3f 42 45-47 4c 4e 58 64 65 76 77 7c 7e 7f 88-8b 90-93 96-98 9a 9c 9e a0-a3 a6-a8 aa ac ae b6-b8 ba bc be", all(AVX512F)},
		{"6", "2d 43 4d 4f 99 9b 9d 9f a9 ab ad af b9 bb bd bf", scalar(AVX512F)},
		{"6", "43", scalar(AVX512F)},
		{"6", "19 59", byW(fDQ, AVX512F)},
		{"6", "1a 5a", byW(AVX512F, fDQ)},
		{"6", "1b 5b", byW(fDQ, AVX512F)},
		{"6", "20 30", all(fBW)},
		{"3", "10 20 30", all(fBW)},
		{"3", "11-15 21-25 31-35", all(AVX512F)},
		{"63", "26", all(fBW)},
		{"63", "27", all(AVX512F)},
		{"3", "28 29", all(fBW)},
		{"3", "38 39", all(fDQ)},
		{"3", "2a", byW(0, fCD)},
		{"3", "3a", byW(fCD, 0)},
		{"6", "44 c4", all(fCD)},
		{"6", "40", byW(AVX512F, fDQ)},
		{"6", "50-53", all(AVX512F | AVX512VNNI)},
		{"-32", "50 51", all(AVX10)},
		{"-", "52", all(AVX10)},
		{"3", "52", all(AVX512F | AVX512BF16)},
		{"2", "52 53", all(AVX512F | AVX512KNL)},
		{"6", "54", all(AVX512F | AVX512BITALG)},
		{"6", "8f", all(AVX512F | AVX512BITALG)},
		{"6", "55", all(AVX512F | AVX512POPCNT)},
		{"6", "62 63 70-73", all(AVX512F | AVX512VBMI2)},
		{"32", "72", all(AVX512F | AVX512BF16)},
		{"2", "68", all(AVX512F | AVX512VP2)},
		{"6", "75 7d 8d", byW(AVX512F|AVX512VBMI, fBW)},
		{"6", "83", all(AVX512F | AVX512VBMI)},
		{"6", "b4 b5", byW(0, AVX512F|AVX512IFMA)},
		{"6", "c6 c7 c8 ca cc", all(AVX512F | AVX512KNL)},
		{"6", "cb cd", scalar(AVX512F | AVX512KNL)},
		{"2", "9a aa", all(AVX512F | AVX512KNL)},
		{"2", "9b ab", scalar(AVX512F | AVX512KNL)},
		{"6", "cf", all(AVX512F | GFNI)},
		{"6", "dc-df", all(AVX512F | VAES)},
		{"-6", "67", all(AVX10)},
		{"-632", "74", all(AVX10)},
		{"-63", "d2 d3", all(AVX10)},
		{"32", "da", all(AVX10 | SM)},
		{"3", "4a", gpr(AMX | AVX512F)},
		{"-632", "6d", gpr(AMX | AVX512F)},
		{"-32", "6f", all(AVX10)},
		// APX: the general-register and tile opcodes of VEX once more.
		{"-", "f2 f3 f7", gpr(APX | BMI1)},
		{"-32", "f5", gpr(APX | BMI2)},
		{"2", "f6", gpr(APX | BMI2)},
		{"632", "f7", gpr(APX | BMI2)},
		{"6", "e0-ef", gpr(APX | CMPCCXADD)},
		{"-62", "49", gpr(APX | AMX)},
		{"632", "4b", gpr(APX | AMX)},
	}),
	3: classify([]rule{
		{"6", "00 01 03-05 08 09 1d 1e 1f 23 25 26 43 54", all(AVX512F)},
		{"6", "0a 0b 17 21 27 55", scalar(AVX512F)},
		{"6", "0f 3e 3f 42", all(fBW)},
		{"6", "14 15 20", scalar(fBW)},
		{"6", "16 22", scalar(fDQ)},
		{"6", "18 19 38 39", byW(AVX512F, fDQ)},
		{"6", "1a 1b 3a 3b", byW(fDQ, AVX512F)},
		{"6", "44", all(AVX512F | VPCLMUL)},
		{"6", "50 56 66", all(fDQ)},
		{"6", "51 57 67", scalar(fDQ)},
		{"6", "70-73", all(AVX512F | AVX512VBMI2)},
		{"6", "ce cf", all(AVX512F | GFNI)},
		{"-", "08 26 56 66 c2", all(fFP16)},
		{"-", "0a 27 57 67", scalar(fFP16)},
		{"3", "c2", scalar(fFP16)},
		{"2", "08 26 42 52 56 66 c2", all(AVX10)},
		{"-6", "52", all(AVX10)},
		{"-6", "53", scalar(AVX10)},
		{"-", "42", all(AVX10)},
		{"632", "07 77", gpr(AMX | AVX512F)},
		{"2", "f0", gpr(APX | BMI2)},
	}),
	5: classify([]rule{
		{"-", "51 58 59 5a 5b 5c-5f 78 79 7c 7d", all(fFP16)},
		{"6", "1d 5a 5b 78-7d", all(fFP16)},
		{"3", "10 11 2a 2c 2d 51 58-5a 5c-5f 78 79 7b", scalar(fFP16)},
		{"-", "1d 2e 2f", scalar(fFP16)},
		{"3", "5b", all(fFP16)},
		{"2", "5a", scalar(fFP16)},
		{"2", "7a 7d", all(fFP16)},
		{"3", "7d", all(fFP16)},
		{"6", "6e 7e", scalar(fFP16)},
		{"3", "6e 7e", scalar(AVX10)},
		{"6", "51 58 59 5c-5f", all(AVX10)},
		{"632", "2e 2f", scalar(AVX10)},
		{"-32", "18 1b 1e", all(AVX10)},
		{"2", "1e", all(AVX10)},
		{"-632", "74 68-6b", all(AVX10)},
		{"6", "6c 6d", all(AVX10)},
		{"-32", "6c 6d", all(AVX10)},
	}),
	6: classify([]rule{
		{"6", "13 2c 42 4c 4e 96-98 9a 9c 9e a6-a8 aa ac ae b6-b8 ba bc be", all(fFP16)},
		{"6", "2d 43 4d 4f 99 9b 9d 9f a9 ab ad af b9 bb bd bf", scalar(fFP16)},
		{"-", "13", scalar(fFP16)},
		{"32", "56 d6", all(fFP16)},
		{"32", "57 d7", scalar(fFP16)},
		{"-", "2c 42 4c 4e 98 9a 9c 9e a8 aa ac ae b8 ba bc be", all(AVX10)},
	}),
	7: classify([]rule{
		{"32", "f6 f8", gpr(APX | Misc)},
	}),
}

// evex decodes behind 62 at b[i-1].
func (in *Inst) evex(b []byte, i int, rex byte) bool {
	if rex != 0 || in.PP != PPNone || in.Flags&(OpSize16|Locked) != 0 || i+5 > len(b) {
		return false
	}
	in.Enc = EncEVEX
	p0, p1, p2 := b[i], b[i+1], b[i+2]
	in.Op = b[i+3]
	i += 4
	in.Map = p0 & 7
	in.PP = p1 & 3
	in.L = p2 >> 5 & 3
	in.V = ^p1>>3&15 | ^p2<<1&16
	n := 0
	if p1&0x80 != 0 {
		in.Flags |= WideW
		n = 1
	}
	// The fifth bits of base and index exist with APX only.
	e := ext{
		r: ^p0>>4&8 | ^p0&16,
		x: ^p0>>3&8 | ^p1<<2&16,
		b: ^p0>>2&8 | p0<<1&16,
	}
	if in.Map == 4 {
		return in.apx(b, i, p2, e)
	}
	if evexMaps[in.Map] == nil {
		return false
	}
	if in.L != 0 {
		n |= 2
	}
	c := &classes[evexMaps[in.Map][in.PP][in.Op]]
	f := c.feat[n]
	if f == 0 {
		return false
	}
	if p0&8 != 0 || p1&4 == 0 {
		f |= APX
	}
	if i = in.modrm(b, i, e, false); i < 0 {
		return false
	}
	mem := in.Mem()
	if !mem && c.kind != kGPR {
		// A vector register takes its fifth bit from X.
		in.RM = in.ModRM&7 | e.b&8 | e.x<<1&16
	}
	switch {
	case c.kind != kVector:
	case !mem && p2&0x10 != 0: // embedded rounding: L is the mode, the length 512
		in.L = 2
	case in.L == 3:
		return false
	case in.L != 2:
		f |= AVX512VL
	}
	if in.Map == 1 && in.Op == 0x73 && in.ModRM>>3&1 == 1 {
		f |= AVX512BW
	}
	in.Feat = f
	return in.tail(b, i)
}
