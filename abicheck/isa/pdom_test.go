package isa

import (
	"debug/elf"
	"math/rand/v2"
	"testing"
)

// TestGraph makes functions of random branches, into the middle of
// instructions too, and holds their graphs against the definition: d
// post-dominates b if the exit cannot be reached from b without d, and is the
// immediate one if every other one post-dominates d.
func TestGraph(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var made grapher // one for all, as in a walk
	for range 2000 {
		code := make([]byte, 1+r.IntN(60))
		for i := 0; i < len(code); i++ {
			switch op := r.IntN(8); {
			case op < 3 && i+1 < len(code):
				code[i], code[i+1] = []byte{0x74, 0x75, 0xeb}[op], byte(r.IntN(2*len(code))-len(code))
				i++
			case op == 3:
				code[i] = 0xc3 // ret
			case op == 4 && r.IntN(4) == 0:
				code[i] = 0x06 // no instruction
			case op == 5:
				code[i] = 0xb8 // mov eax, and four bytes
			default:
				code[i] = 0x90
			}
		}
		im := &image{machine: elf.EM_X86_64, text: []segment{{addr: 0x1000, bytes: code}}}
		f := &function{start: start{addr: 0x1000, size: uint64(len(code))}}
		g := made.graph(im, f)
		exit := int32(len(g.blocks))
		at := f.addr
		for i := range g.blocks {
			if b := &g.blocks[i]; b.lo != at || b.hi <= b.lo {
				t.Fatalf("%x: block %d is [%#x, %#x), want it from %#x on", code, i, b.lo, b.hi, at)
			}
			at = g.blocks[i].hi
		}
		if at != f.end() || len(g.ipdom) != len(g.blocks) {
			t.Fatalf("%x: blocks to %#x of %#x, %d of %d dominators", code, at, f.end(), len(g.ipdom), len(g.blocks))
		}
		for b := range exit {
			ends := reaches(g, b, none)
			ip := g.ipdom[b]
			if !ends && ip != exit || ip == b {
				t.Fatalf("%x: block %d: %d, want the exit", code, b, ip)
			}
			for d := range exit {
				switch dominates := ends && d != b && !reaches(g, b, d); {
				case d == ip && !dominates:
					t.Fatalf("%x: block %d does not post-dominate %d", code, d, b)
				case dominates && d != ip && (ip == exit || reaches(g, ip, d)):
					t.Fatalf("%x: block %d post-dominates %d before %d does", code, d, b, ip)
				}
			}
		}
	}
}

// reaches reports whether the exit can be reached from block b around another.
func reaches(g *flowGraph, b, without int32) bool {
	seen := make([]bool, len(g.blocks))
	for work := []int32{b}; len(work) > 0; {
		b := work[len(work)-1]
		work = work[:len(work)-1]
		if int(b) == len(g.blocks) {
			return true
		}
		if b != without && !seen[b] {
			seen[b] = true
			work = append(work, g.blocks[b].next()...)
		}
	}
	return false
}
