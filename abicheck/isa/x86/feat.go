package x86

import (
	"math/bits"
	"strings"
)

// Feat is a set of CPU features that x86-64 itself does not promise.
type Feat uint64

// The features. One bit each; where two CPUID bits never matter apart for
// a leak (AVX-512 ER and PF), they share one.
const (
	SSE3 Feat = 1 << iota
	SSSE3
	SSE41
	SSE42
	POPCNT
	CX16
	LAHF
	AES
	PCLMUL
	SHA
	MOVBE
	LZCNT
	// TZCNT runs everywhere as BSF, with another result for zero: compilers
	// emit it for generic targets, so it is only counted in code that was
	// compiled for BMI.
	TZCNT
	ADX
	SSE4A
	TDNow // 3DNow!
	AVX
	AVX2
	F16C
	FMA
	BMI1
	BMI2
	FMA4
	XOP
	TBM
	LWP
	VAES
	VPCLMUL
	GFNI
	AVXVNNI
	AVXIFMA
	AVXNEConvert
	AVXVNNIInt // VNNI-INT8 and VNNI-INT16
	SHA512
	SM // SM3 and SM4
	AVX512F
	AVX512VL
	AVX512BW
	AVX512DQ
	AVX512CD
	AVX512IFMA
	AVX512VBMI
	AVX512VBMI2
	AVX512VNNI
	AVX512BITALG
	AVX512POPCNT
	AVX512BF16
	AVX512FP16
	AVX512VP2
	AVX512KNL // ER, PF, 4FMAPS, 4VNNIW
	AVX10
	AMX
	APX
	CMPCCXADD
	RDRAND
	RDSEED
	RTM
	FSGSBASE
	CacheCtl // clwb, clflushopt, cldemote
	XSave
	Misc   // rarely used user-mode additions: waitpkg, movdiri, enqcmd, uintr, serialize, rdpid, pku, key locker ...
	System // privileged or virtualisation instructions
)

var featNames = [...]string{
	"SSE3", "SSSE3", "SSE4.1", "SSE4.2", "POPCNT", "CMPXCHG16B", "LAHF", "AES", "PCLMULQDQ", "SHA", "MOVBE", "LZCNT",
	"TZCNT", "ADX", "SSE4A", "3DNOW", "AVX", "AVX2", "F16C", "FMA", "BMI1", "BMI2", "FMA4", "XOP", "TBM", "LWP",
	"VAES", "VPCLMULQDQ", "GFNI", "AVX-VNNI", "AVX-IFMA", "AVX-NE-CONVERT", "AVX-VNNI-INT", "SHA512", "SM3/SM4",
	"AVX512F", "AVX512VL", "AVX512BW", "AVX512DQ", "AVX512CD", "AVX512IFMA", "AVX512VBMI", "AVX512VBMI2",
	"AVX512VNNI", "AVX512BITALG", "AVX512VPOPCNTDQ", "AVX512BF16", "AVX512FP16", "AVX512VP2INTERSECT",
	"AVX512ER/PF", "AVX10.2", "AMX", "APX", "CMPCCXADD", "RDRAND", "RDSEED", "RTM", "FSGSBASE", "CLWB/CLFLUSHOPT",
	"XSAVE", "MISC", "SYSTEM",
}

// Gated is the set that code always hides behind a test of its own or that
// only hand-written code uses; a leak check leaves it out unless it is strict.
const Gated = RDRAND | RDSEED | RTM | FSGSBASE | CacheCtl | XSave | Misc | System | CX16 | LAHF

// The microarchitecture levels of the x86-64 psABI, as what code may use.
const (
	V1 = Feat(0)
	V2 = V1 | SSE3 | SSSE3 | SSE41 | SSE42 | POPCNT | CX16 | LAHF
	V3 = V2 | AVX | AVX2 | F16C | FMA | BMI1 | BMI2 | LZCNT | TZCNT | MOVBE | XSave
	V4 = V3 | AVX512F | AVX512VL | AVX512BW | AVX512DQ | AVX512CD
)

// Vector512 is every feature that AVX-512 hardware brings.
const Vector512 = AVX512F | AVX512VL | AVX512BW | AVX512DQ | AVX512CD | AVX512IFMA | AVX512VBMI | AVX512VBMI2 |
	AVX512VNNI | AVX512BITALG | AVX512POPCNT | AVX512BF16 | AVX512FP16 | AVX512VP2 | AVX512KNL | AVX10

// Names lists the features of f in order of their bits.
func (f Feat) Names() []string {
	var out []string
	for f != 0 {
		i := bits.TrailingZeros64(uint64(f))
		out = append(out, featNames[i])
		f &= f - 1
	}
	return out
}

// String joins the names with "+"; the empty set is "x86-64".
func (f Feat) String() string {
	if f == 0 {
		return "x86-64"
	}
	return strings.Join(f.Names(), "+")
}
