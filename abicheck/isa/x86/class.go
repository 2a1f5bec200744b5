package x86

import "strings"

// A class says which feature an opcode of VEX or EVEX needs, by its W bit and
// by whether its vector length is above 128 bits. A zero entry is undefined.
type class struct {
	feat [4]Feat // index: W | (L != 0)<<1
	kind uint8
}

// Kinds of class that need more than W and L.
const (
	kVector = iota // EVEX: below 512 bits it needs AVX512VL
	kScalar        // EVEX: no vector length
	kBcast         // VEX: from memory AVX, from a register AVX2
	kGPR           // general registers only
	kMem           // only with a memory operand
)

func all(f Feat) class      { return class{feat: [4]Feat{f, f, f, f}} }
func byW(w0, w1 Feat) class { return class{feat: [4]Feat{w0, w1, w0, w1}} }
func byL(x, y Feat) class   { return class{feat: [4]Feat{x, x, y, y}} }
func scalar(f Feat) class   { return class{feat: [4]Feat{f, f, f, f}, kind: kScalar} }
func gpr(f Feat) class      { return class{feat: [4]Feat{f, f, f, f}, kind: kGPR} }

// A rule gives a class to opcodes under some of the prefixes none, 66, F3 and
// F2, written "-", "6", "3" and "2". Later rules win.
type rule struct {
	pps, ops string
	class    class
}

// A classMap maps prefix and opcode to an index in classes.
type classMap [4][256]uint8

// classes holds every distinct class; entry 0 is "undefined".
var classes = make([]class, 1, 128)

func classify(rules []rule) *classMap {
	t := new(classMap)
	for _, r := range rules {
		n := 0
		for n < len(classes) && classes[n] != r.class {
			n++
		}
		if n == len(classes) {
			classes = append(classes, r.class)
		}
		for pp, name := range []string{"-", "6", "3", "2"} {
			if !strings.Contains(r.pps, name) {
				continue
			}
			for _, op := range opRange(r.ops) {
				t[pp][op] = uint8(n)
			}
		}
	}
	return t
}
