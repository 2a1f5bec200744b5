package x86

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
