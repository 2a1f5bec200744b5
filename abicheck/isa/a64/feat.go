// Package a64 tells which architecture feature an AArch64 instruction needs.
// Instructions are words of four bytes, so there is nothing to decode but the
// class: Classify looks at one word.
package a64

import (
	"math/bits"
	"strings"
)

// Feat is a set of features beyond ARMv8.0-A with FP and Advanced SIMD.
type Feat uint64

// The features.
const (
	CRC Feat = 1 << iota
	LSE
	RDM
	FP16
	FHM
	DOTPROD
	I8MM
	BF16
	FCMA
	JSCVT
	FRINTTS
	FLAGM
	RCPC
	AES
	SHA2
	SHA3 // with SHA512
	SM4  // with SM3
	SVE
	SME
	MTE
	MOPS
	LS64
	PAUTH // the forms that trap without it; hints do not count
	RNG
	SB
	LOR   // limited ordering regions
	Later // CSSC, HBC, WFxT, LSE128
)

var names = [...]string{"CRC", "LSE", "RDM", "FP16", "FHM", "DOTPROD", "I8MM", "BF16", "FCMA", "JSCVT", "FRINTTS",
	"FLAGM", "RCPC", "AES", "SHA2", "SHA3", "SM4", "SVE", "SME", "MTE", "MOPS", "LS64", "PAUTH", "RNG", "SB", "LOR", "ARMV8.7+"}

// What code for a processor may use.
const (
	Base    = Feat(0)
	AppleM1 = LSE | RCPC | CRC | DOTPROD | RDM | FCMA | FP16 | FHM | AES | SHA2 | SHA3 | JSCVT | FRINTTS | FLAGM | PAUTH | SB | LOR
)

// String joins the names with "+"; the empty set is "armv8-a".
func (f Feat) String() string {
	if f == 0 {
		return "armv8-a"
	}
	var out []string
	for ; f != 0; f &= f - 1 {
		out = append(out, names[bits.TrailingZeros64(uint64(f))])
	}
	return strings.Join(out, "+")
}
