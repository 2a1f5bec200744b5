package a64

// Classify returns the feature that the instruction word w needs, 0 for one of
// ARMv8.0-A or a word that is no instruction. The masks follow the encoding
// index of the A64 instruction set.
func Classify(w uint32) Feat {
	switch w >> 25 & 15 {
	case 0:
		if w>>31 != 0 {
			return SME
		}
	case 2:
		return scalable(w)
	case 8, 9:
		return immediate(w)
	case 10, 11:
		return system(w)
	case 4, 6, 12, 14:
		return memory(w)
	case 5, 13:
		return register(w)
	case 7, 15:
		return vector(w)
	}
	return 0
}

// scalable is the region of SVE, where SME has a few of its own.
func scalable(w uint32) Feat {
	switch {
	case w&0xfffff800 == 0x04bf5800, w&0xffa0f800 == 0x04205800, // rdsvl, addsvl, addspl
		w&0xff20c210 == 0x25204000,                             // psel
		w&0xffffe000 == 0x052e8000,                             // revd
		w&0xff20f800 == 0x4400c000, w&0xff20fc00 == 0x64202400: // sclamp, uclamp, fclamp
		return SME
	}
	return SVE
}

func immediate(w uint32) Feat {
	switch {
	case w&0xffc0c000 == 0x91800000, w&0xffc0c000 == 0xd1800000: // addg, subg
		return MTE
	case w&0x7ff00000 == 0x11c00000: // smax, umin ... by immediate
		return Later
	}
	return 0
}

// system is branches, exceptions and system instructions.
func system(w uint32) Feat {
	switch {
	case w&0xfe9ff800 == 0xd61f0800, // braa, blraa, with and without modifier
		w&0xfffffbff == 0xd65f0bff, // retaa, retab
		w&0xfffffbff == 0xd69f0bff: // eretaa, eretab
		return PAUTH
	case w&0xff000010 == 0x54000010: // bc.cond
		return Later
	case w&0xfffff0ff == 0xd500401f, w&0xfffff0ff == 0xd500403f, w&0xfffff0ff == 0xd500405f: // cfinv, xaflag, axflag
		return FLAGM
	case w == 0xd50330ff:
		return SB
	case w&0xffffffc0 == 0xd53b2400: // mrs rndr, rndrrs
		return RNG
	case w&0xfffff0ff == 0xd503407f: // smstart, smstop
		if m := w >> 8 & 15; m >= 2 && m <= 7 {
			return SME
		}
	case w&0xffffffc0 == 0xd5031000: // wfet, wfit
		return Later
	}
	return 0
}

// memory is loads and stores.
func memory(w uint32) Feat {
	switch {
	case w&0xbfa07c00 == 0x08207c00, w&0x3fa07c00 == 0x08a07c00: // casp, cas
		return LSE
	case w&0x3fa08000 == 0x08800000: // ldlar, stllr
		return LOR
	case w&0x3f200c00 == 0x38200000:
		return atomic(w)
	case w&0xff200400 == 0xf8200400: // ldraa, ldrab
		return PAUTH
	case w&0xff200000 == 0xd9200000: // stg, ldg and their kin
		return MTE
	case w&0xffc00000 == 0x68800000, w&0xffc00000 == 0x69000000, w&0xffc00000 == 0x69800000: // stgp
		return MTE
	case w&0x3f200c00 == 0x19000000: // ldapur, stlur
		return RCPC
	case w&0xfb200c00 == 0x19000400: // cpy, set
		return MOPS
	case w&0x3f200c00 == 0x19200000: // 128-bit atomics
		return Later
	}
	return 0
}

// atomic is the class of atomic memory operations.
func atomic(w uint32) Feat {
	if w&0x3ffffc00 == 0x38bfc000 {
		return RCPC // ldapr
	}
	if w&0xffe08000 == 0xf8208000 {
		switch w >> 12 & 7 {
		case 1, 2, 3, 5:
			return LS64
		}
	}
	if w&0x8000 != 0 && w>>12&7 != 0 {
		return 0 // not allocated
	}
	return LSE
}

// register is data processing on general registers.
func register(w uint32) Feat {
	switch {
	case w&0x7fe0e000 == 0x1ac04000:
		return CRC
	case w&0xffe0fc00 == 0x9ac03000, w&0xffff0000 == 0xdac10000: // pacga, pacia ...
		return PAUTH
	case w&0xffe0fc00 == 0x9ac01000, w&0xffe0fc00 == 0x9ac01400, // irg, gmi
		w&0xffe0fc00 == 0x9ac00000, w&0xffe0fc00 == 0xbac00000: // subp, subps
		return MTE
	case w&0xffe07c10 == 0xba000400, w&0xffffbc1f == 0x3a00080d: // rmif, setf8, setf16
		return FLAGM
	case w&0x7fe0f000 == 0x1ac06000, // smax ...
		w&0x7ffff800 == 0x5ac01800, w&0x7ffffc00 == 0x5ac02000: // ctz, cnt, abs
		return Later
	}
	return 0
}

// vector is Advanced SIMD and floating point.
func vector(w uint32) Feat {
	switch w >> 24 {
	case 0xce:
		return crypto(w)
	case 0x4e:
		if w&0xffffcc00 == 0x4e284800 {
			return AES
		}
	case 0x5e:
		if w&0xffe08c00 == 0x5e000000 && w>>12&7 != 7 || w&0xffffcc00 == 0x5e280800 && w>>12&3 != 3 {
			return SHA2
		}
	}
	switch {
	case w&0xbfe0fc00 == 0x0ee0e000: // pmull of 64 bits
		return AES
	case w&0x9f60c400 == 0x0e400400, w&0xdf60c400 == 0x5e400400, // three registers
		w&0x9f7e0c00 == 0x0e780800, w&0xdf7e0c00 == 0x5e780800, // two registers
		w&0xbf7fcc00 == 0x0e30c800, w&0xff7fcc00 == 0x5e30c800, // across lanes, pairwise
		w&0xbff8fc00 == 0x0f00fc00,                             // fmov by immediate
		w&0x9ff0fc00 == 0x0f10e400, w&0x9ff0fc00 == 0x0f10fc00, // conversions with a shift
		w&0xdff0fc00 == 0x5f10e400, w&0xdff0fc00 == 0x5f10fc00:
		return FP16
	case w&0x9f208400 == 0x0e008400:
		return threeExtra(w)
	case w&0xff20f400 == 0x7e008400:
		return RDM
	case w&0xbf60fc00 == 0x0e20ec00, w&0xbf60fc00 == 0x2e20cc00: // fmlal, fmlsl
		return FHM
	case w&0xbffffc00 == 0x0ea16800, w&0xfffffc00 == 0x1e634000: // bfcvtn, bfcvt
		return BF16
	case w&0x9fbfec00 == 0x0e21e800, w&0xffbe7c00 == 0x1e284000: // frint32z ...
		return FRINTTS
	case w&0xfffffc00 == 0x1e7e0000:
		return JSCVT
	case w&0x9f000400 == 0x0f000000:
		return byElement(w)
	case w&0xdf000400 == 0x5f000000:
		return byElementScalar(w)
	case w&0xfffffc00 == 0x1ee24000, w&0xfffffc00 == 0x1ee2c000: // fcvt from half is as old as ARMv8
		return 0
	case w&0x7fe00000 == 0x1ee00000, w&0x7fe00000 == 0x1ec00000, w&0xffc00000 == 0x1fc00000:
		return FP16
	}
	return 0
}

func crypto(w uint32) Feat {
	switch {
	case w&0xffe0f000 == 0xce608000, w&0xff808000 == 0xce000000 && w>>21&3 < 2, w&0xffe00000 == 0xce800000, w&0xfffffc00 == 0xcec08000:
		return SHA3
	case w&0xffe0f000 == 0xce60c000, w&0xffe0c000 == 0xce408000, w&0xffe08000 == 0xce400000, w&0xfffffc00 == 0xcec08400:
		return SM4
	}
	return 0
}

// threeExtra is the class "three same (extra)".
func threeExtra(w uint32) Feat {
	u, size := w>>29&1, w>>22&3
	switch op := w >> 11 & 15; {
	case op < 2 && u == 1:
		return RDM
	case op == 2 && size == 2:
		return DOTPROD
	case op == 3 && u == 0 && size == 2, op == 4 && size == 2, op == 5 && u == 0 && size == 2:
		return I8MM
	case op >= 8 && op <= 12 && u == 1, op == 14 && u == 1:
		return FCMA
	case op == 13 && u == 1 && size == 1, op == 15 && u == 1 && size&1 == 1:
		return BF16
	}
	return 0
}

// byElement is the class "vector by indexed element".
func byElement(w uint32) Feat {
	u, size := w>>29&1, w>>22&3
	switch op := w >> 12 & 15; {
	case op&3 == 1 && u == 1 && op < 8 && (size == 1 || size == 2), op&3 == 3 && u == 1 && op < 8 && (size == 1 || size == 2):
		return FCMA
	case (op == 1 || op == 5) && u == 0 && size == 0, op == 9 && size == 0:
		return FP16
	case (op == 0 || op == 4) && u == 0 && size == 2, (op == 8 || op == 12) && u == 1 && size == 2:
		return FHM
	case (op == 13 || op == 15) && u == 1:
		return RDM
	case op == 14 && size == 2:
		return DOTPROD
	case op == 15 && u == 0 && size&1 == 0:
		return I8MM
	case op == 15 && u == 0:
		return BF16
	}
	return 0
}

func byElementScalar(w uint32) Feat {
	u, size := w>>29&1, w>>22&3
	switch op := w >> 12 & 15; {
	case (op == 1 || op == 5) && u == 0 && size == 0, op == 9 && size == 0:
		return FP16
	case (op == 13 || op == 15) && u == 1:
		return RDM
	}
	return 0
}
