package x86

// special settles what the opcode tables of the legacy maps leave open: control
// flow, the CPU feature, and immediates that depend on ModRM. It returns the
// entry to read the immediate by; ok is false for an undefined form.
func (in *Inst) special(fl uint16) (uint16, bool) {
	switch in.Map {
	case 0:
		return in.special0(fl)
	case 1:
		return in.special1(fl)
	case 2:
		return fl, in.special38()
	}
	return fl, in.special3A()
}

func (in *Inst) special0(fl uint16) (uint16, bool) {
	reg := in.ModRM >> 3 & 7
	switch op := in.Op; op {
	case 0xe8:
		in.Flow = FlowCall
	case 0xe9, 0xeb:
		in.Flow = FlowJmp
	case 0xc2, 0xc3, 0xca, 0xcb, 0xcf:
		in.Flow = FlowRet
	case 0xcc, 0xf4:
		in.Flow = FlowStop
	case 0x9e, 0x9f:
		in.Feat = LAHF
	case 0x8d:
		return fl, in.Mem()
	case 0x8f:
		return fl, reg == 0
	case 0xdb, 0xdd, 0xdf: // fisttp
		if reg == 1 && in.Mem() {
			in.Feat = SSE3
		}
	case 0xf6:
		if reg < 2 {
			fl |= fI8
		}
	case 0xf7:
		if reg < 2 {
			fl |= fIZ
		}
	case 0xfe:
		return fl, reg < 2
	case 0xff:
		switch reg {
		case 2, 3:
			in.Flow = FlowCallInd
		case 4, 5:
			in.Flow = FlowJmpInd
		case 7:
			return fl, false
		}
		return fl, reg&^6 != 1 || reg == 1 || in.Mem() // far forms need memory
	case 0xc6, 0xc7:
		if in.ModRM == 0xf8 { // xabort, xbegin
			in.Feat = RTM
			if op == 0xc7 {
				in.Flow = FlowJcc
			}
			return fl, true
		}
		return fl, reg == 0
	default: // 70-7f, e0-e3
		in.Flow = FlowJcc
	}
	return fl, true
}

func (in *Inst) special1(fl uint16) (uint16, bool) {
	reg := in.ModRM >> 3 & 7
	pp := in.PP
	switch op := in.Op; op {
	case 0x00: // sldt, str, lldt, ltr, verr, verw; 6 and 7 are undefined (lkgs apart)
		in.Feat = System
	case 0x01:
		in.group7(reg)
	case 0x06, 0x07, 0x09, 0x20, 0x21, 0x22, 0x23, 0x30, 0x32, 0x33, 0x34, 0x35, 0x37, 0xaa:
		in.Feat = System
	case 0x0b, 0xb9, 0xff:
		in.Flow = FlowStop
	case 0x0d, 0x1e: // prefetchw and hints (endbr64, rdssp): no-ops where unknown
	case 0x1a, 0x1b: // MPX: no-ops where unknown
	case 0x0e: // femms
		in.Feat = TDNow
	case 0x12:
		if pp >= PPF3 {
			in.Feat = SSE3
		}
	case 0x16:
		if pp == PPF3 {
			in.Feat = SSE3
		}
	case 0x2b:
		if pp >= PPF3 {
			in.Feat = SSE4A
		}
	case 0x78:
		switch pp {
		case PPNone:
			in.Feat = System // vmread
		case PP66, PPF2:
			in.Feat = SSE4A
			fl |= fI8I8
		default:
			return fl, false
		}
	case 0x79:
		switch pp {
		case PPNone:
			in.Feat = System // vmwrite
		case PP66, PPF2:
			in.Feat = SSE4A
		default:
			return fl, false
		}
	case 0x7c, 0x7d, 0xd0:
		in.Feat = SSE3
		return fl, pp == PP66 || pp == PPF2
	case 0xf0:
		in.Feat = SSE3
		return fl, pp == PPF2 && in.Mem()
	case 0xa6, 0xa7: // VIA PadLock
		in.Feat = Misc
		return fl, !in.Mem()
	case 0xae:
		return fl, in.group15(reg)
	case 0xb8:
		in.Feat = POPCNT
		return fl, pp == PPF3
	case 0xbc:
		if pp == PPF3 {
			in.Feat = TZCNT
		}
	case 0xbd:
		if pp == PPF3 {
			in.Feat = LZCNT
		}
	case 0xbe, 0xbf:
	case 0xc7:
		return fl, in.group9(reg)
	default: // 80-8f
		in.Flow = FlowJcc
	}
	return fl, true
}

// group7 is 0F 01.
func (in *Inst) group7(reg byte) {
	if in.Mem() {
		switch {
		case reg == 5: // rstorssp, setssbsy
			in.Feat = Misc
		case reg != 4: // smsw is free
			in.Feat = System
		}
		return
	}
	switch in.ModRM {
	case 0xd0, 0xf9: // xgetbv is how one asks; rdtscp is as old as its users
	case 0xd5, 0xd6:
		in.Feat = RTM
	case 0xc8, 0xc9, 0xd7, 0xe8, 0xea, 0xee, 0xef, 0xfa, 0xfb, 0xfc, 0xfd, 0xec, 0xed:
		in.Feat = Misc
	default:
		if reg != 4 {
			in.Feat = System
		}
	}
}

// group15 is 0F AE: state saving, fences, cache control.
func (in *Inst) group15(reg byte) bool {
	if in.Mem() {
		switch reg {
		case 4:
			in.Feat = XSave
			if in.PP == PPF3 {
				in.Feat = Misc // ptwrite
			}
		case 5:
			in.Feat = XSave
		case 6:
			switch in.PP {
			case PP66:
				in.Feat = CacheCtl // clwb
			case PPF3:
				in.Feat = Misc // clrssbsy
			default:
				in.Feat = XSave
			}
		case 7:
			if in.PP == PP66 {
				in.Feat = CacheCtl // clflushopt
			}
		}
		return true
	}
	switch in.PP {
	case PPF3:
		switch reg {
		case 0, 1, 2, 3:
			in.Feat = FSGSBASE
		case 4, 5, 6:
			in.Feat = Misc // ptwrite, incssp, umonitor
		default:
			return false
		}
	case PPF2, PP66:
		if reg != 6 && reg != 7 {
			return false
		}
		in.Feat = Misc // umwait, tpause, pcommit
	default:
		return reg >= 5
	}
	return true
}

// group9 is 0F C7.
func (in *Inst) group9(reg byte) bool {
	if in.Mem() {
		switch reg {
		case 1:
			if in.Flags&WideW != 0 {
				in.Feat = CX16
			}
		case 3, 4, 5:
			in.Feat = XSave
		case 6, 7:
			in.Feat = System
		default:
			return false
		}
		return true
	}
	switch {
	case reg == 6 && in.PP == PPF3:
		in.Feat = Misc // senduipi
	case reg == 6:
		in.Feat = RDRAND
	case reg == 7 && in.PP == PPF3:
		in.Feat = Misc // rdpid
	case reg == 7:
		in.Feat = RDSEED
	default:
		return false
	}
	return true
}

// special38 settles map 0F38.
func (in *Inst) special38() bool {
	op, pp := in.Op, in.PP
	switch {
	case op <= 0x0b || op >= 0x1c && op <= 0x1e:
		in.Feat = SSSE3
		return pp <= PP66
	case op == 0x37:
		in.Feat = SSE42
		return pp == PP66
	case op <= 0x41:
		in.Feat = SSE41
		return pp == PP66
	case op <= 0x82: // invept, invvpid, invpcid
		in.Feat = System
		return pp == PP66
	case op == 0x8a || op == 0x8b: // movrs
		in.Feat = Misc
	case op >= 0xc8 && op <= 0xcd:
		in.Feat = SHA
		return pp == PPNone
	case op == 0xcf:
		in.Feat = GFNI
		return pp == PP66
	case op == 0xd8 || op == 0xda:
		in.Feat = Misc // key locker
		return pp == PPF3
	case op >= 0xdb && op <= 0xdf:
		in.Feat = AES
		if pp == PPF3 {
			in.Feat = Misc // key locker
			return op >= 0xdc
		}
		return pp == PP66
	case op == 0xf0 || op == 0xf1:
		in.Feat = MOVBE
		if in.Flags&RepNE != 0 {
			in.Feat = SSE42 // crc32
			return true
		}
		return in.Mem()
	case op == 0xf6:
		in.Feat = ADX
		if pp == PPNone {
			in.Feat = System // wrss
		}
		return pp != PPF2
	case op == 0xf5:
		in.Feat = System // wruss
		return pp == PP66
	default: // movdir64b, enqcmd, movdiri, encodekey, aadd
		in.Feat = Misc
	}
	return true
}

// special3A settles map 0F3A.
func (in *Inst) special3A() bool {
	switch op := in.Op; op {
	case 0x0f:
		in.Feat = SSSE3
		return in.PP <= PP66
	case 0x44:
		in.Feat = PCLMUL
	case 0x60, 0x61, 0x62, 0x63:
		in.Feat = SSE42
	case 0xcc:
		in.Feat = SHA
		return in.PP == PPNone
	case 0xce, 0xcf:
		in.Feat = GFNI
	case 0xdf:
		in.Feat = AES
	case 0xf0: // hreset
		in.Feat = Misc
		return in.PP == PPF3
	default:
		in.Feat = SSE41
	}
	return in.PP == PP66
}
