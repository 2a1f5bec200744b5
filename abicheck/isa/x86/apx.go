package x86

// tab4 is EVEX map 4: integer opcodes of maps 0, 1 and 2, promoted by APX.
var tab4 = opcodes(fBad, map[string]uint16{
	"00-03 08-0b 10-13 18-1b 20-23 28-2b 30-33 38-3b 40-4f 60 61 65 66 84 85 88 8f a5 ad af d0-d3 d8 da-df f0-f2 f4 f5 f8 f9 fc fe ff": fModRM,
	"24 2c 6b 80 83 c0 c1 d4": fModRM | fI8,
	"69 81":                   fModRM | fIZ,
	"f6 f7":                   fModRM | fSpecial,
})

// apx decodes map 4; p2 is the third payload byte of EVEX.
func (in *Inst) apx(b []byte, i int, p2 byte, e ext) bool {
	fl := tab4[in.Op]
	if fl&fBad != 0 {
		return false
	}
	if in.PP == PP66 {
		in.Flags |= OpSize16
	}
	if p2&4 != 0 {
		in.Flags |= NoFlags
	}
	if p2&0x10 != 0 {
		in.Flags |= NewData
	}
	if i = in.modrm(b, i, e, false); i < 0 {
		return false
	}
	if fl&fSpecial != 0 && in.ModRM>>3&7 < 2 {
		fl |= fI8
		if in.Op == 0xf7 {
			fl = fModRM | fIZ
		}
	}
	if i = in.imm(b, i, fl); i < 0 {
		return false
	}
	in.Feat = APX
	in.Len = uint8(i)
	return true
}
