package x86

import (
	"strconv"
	"strings"
)

// Layout of an opcode entry: flags in the low byte, the kind of immediate
// above it.
const (
	fModRM   = 1 << iota // a ModRM byte follows
	fBad                 // not defined in 64-bit mode
	fSpecial             // flow, feature or immediate depend on more than the opcode
	fPrefix              // a legacy prefix or REX
	fEscape              // starts another map or encoding
	fRegOnly             // the ModRM operand is a register whatever mod says
)

const (
	fI8    = (1 + iota) << 8 // one byte
	fI16                     // two bytes
	fI32                     // four bytes
	fIZ                      // operand size, at most four bytes
	fIV                      // operand size, eight bytes with REX.W (mov r64, imm64)
	fMoffs                   // address size
	fI16I8                   // enter
	fI64                     // jmpabs
	fI8I8                    // extrq, insertq
	fImm   = 0xf00
)

// The maps of the legacy encoding.
var (
	tab0 = opcodes(fBad, map[string]uint16{
		"00-03 08-0b 10-13 18-1b 20-23 28-2b 30-33 38-3b":             fModRM,
		"04 0c 14 1c 24 2c 34 3c":                                     fI8,
		"05 0d 15 1d 25 2d 35 3d":                                     fIZ,
		"0f 62 c4 c5 d5":                                              fEscape,
		"26 2e 36 3e 64-67 f0 f2 f3 40-4f":                            fPrefix,
		"50-5f 6c-6f 90-99 9b-9d a4-a7 aa-af c9 d7 ec-ef f1 f5 f8-fd": 0,
		"63 84-8c 8e d0-d3 d8 d9 da dc de":                            fModRM,
		"8d db dd df fe ff f6 f7":                                     fModRM | fSpecial,
		"68 a9":                                                       fIZ,
		"69 81":                                                       fModRM | fIZ,
		"6a a8 b0-b7 cd e4-e7":                                        fI8,
		"6b 80 83 c0 c1":                                              fModRM | fI8,
		"70-7f e0-e3 eb":                                              fI8 | fSpecial,
		"9e 9f c3 cb cf cc f4":                                        fSpecial,
		"8f":                                                          fModRM | fSpecial | fEscape,
		"a0-a3":                                                       fMoffs,
		"b8-bf":                                                       fIV,
		"c2 ca":                                                       fI16 | fSpecial,
		"c6":                                                          fModRM | fI8 | fSpecial,
		"c7":                                                          fModRM | fIZ | fSpecial,
		"c8":                                                          fI16I8,
		"e8 e9":                                                       fI32 | fSpecial,
	})
	tab1 = opcodes(fBad, map[string]uint16{
		"02 03 10 11 13-15 17-19 1c 1d 1f 28-2a 2c-2f 40-6f 74-76 7e 7f 90-9f a3 a5 ab ad af b0 b1 b2-b7 bb c0 c1 c3 d1-ef f1-fe": fModRM,
		"00 01 0d 12 16 1a 1b 1e 2b 78 79 7c 7d a6 a7 ae b8 b9 bc bd be bf c7 d0 f0 ff":                                           fModRM | fSpecial,
		"05 08 31 77 a0 a1 a2 a8 a9 c8-cf": 0,
		"06 07 09 0b 0e 30 32-35 37 aa":    fSpecial,
		"20-23":                            fModRM | fRegOnly | fSpecial,
		"70-73 a4 ac ba c2 c4-c6":          fModRM | fI8,
		"80-8f":                            fI32 | fSpecial,
	})
	tab38 = opcodes(fBad, map[string]uint16{
		"00-0b 10 14 15 17 1c-1e 20-25 28-2b 30-35 37-41 80-82 8a 8b c8-cd cf d8 da-df f0 f1 f5 f6 f8-fc": fModRM | fSpecial,
	})
	tab3A = opcodes(fBad, map[string]uint16{
		"08-0f 14-17 20-22 40-42 44 60-63 cc ce cf df f0": fModRM | fI8 | fSpecial,
	})
)

// opcodes expands ranges of hexadecimal opcodes; what is not named is rest.
func opcodes(rest uint16, defs map[string]uint16) (t [256]uint16) {
	for i := range t {
		t[i] = rest
	}
	for ops, fl := range defs {
		for _, op := range opRange(ops) {
			if t[op] != rest {
				panic("x86: opcode defined twice in " + ops)
			}
			t[op] = fl
		}
	}
	return t
}

// opRange parses "10 20-2f" into its values. It panics on anything else: the
// texts are constants of this package.
func opRange(s string) (out []byte) {
	for f := range strings.FieldsSeq(s) {
		lo, hi, ok := strings.Cut(f, "-")
		if !ok {
			hi = lo
		}
		a, err := strconv.ParseUint(lo, 16, 8)
		if err != nil {
			panic(err)
		}
		z, err := strconv.ParseUint(hi, 16, 8)
		if err != nil {
			panic(err)
		}
		for ; a <= z; a++ {
			out = append(out, byte(a))
		}
	}
	return out
}

func bytesOf(s string) (t [256]bool) {
	for _, b := range opRange(s) {
		t[b] = true
	}
	return t
}
