package isa

import (
	"cmp"
	"slices"

	"github.com/thox-ai/thoxbuild/abicheck/isa/x86"
)

// A flowGraph is the basic blocks of one function with their immediate
// post-dominators.
type flowGraph struct {
	blocks []block
	ipdom  []int // index of a block; len(blocks) is the exit
}

type block struct {
	lo, hi uint64 // instruction addresses [lo, hi)
	succ   []int  // block indices; len(blocks) is the exit
}

// outside is the target of a conditional branch that leaves its function: the
// exit, though another way leads on.
const outside = ^uint64(0)

// graph builds the blocks of a function. Indirect jumps go to the exit: where
// they lead is unknown.
func (im *image) graph(f *function) *flowGraph {
	var (
		leaders = []uint64{f.addr}
		ends    = map[uint64]*[2]uint64{} // last instruction -> successors, 0 for the exit
		last    = map[uint64]uint64{}     // instruction -> next instruction
		order   []uint64
		in      insn
	)
	for pc, next := f.addr, uint64(0); pc < f.end(); pc = next {
		order = append(order, pc)
		if !im.next(f, pc, &in) {
			ends[pc] = &[2]uint64{}
			next = pc + im.unit()
			last[pc] = next
			leaders = append(leaders, next)
			continue
		}
		next = pc + in.size
		last[pc] = next
		var succ [2]uint64
		switch in.flow {
		case x86.FlowJcc:
			succ = [2]uint64{next, outside}
			if in.to >= f.addr && in.to < f.end() {
				succ[1] = in.to
			}
		case x86.FlowJmp:
			if in.to >= f.addr && in.to < f.end() {
				succ[0] = in.to
			}
		case x86.FlowRet, x86.FlowStop, x86.FlowJmpInd:
		default:
			continue
		}
		ends[pc] = &succ
		leaders = append(leaders, next)
		for _, s := range succ {
			if s != 0 && s != outside {
				leaders = append(leaders, s)
			}
		}
	}
	slices.Sort(leaders)
	leaders = slices.Compact(leaders)
	g := &flowGraph{}
	index := func(addr uint64) int {
		i, ok := slices.BinarySearchFunc(g.blocks, addr, func(b block, a uint64) int { return cmp.Compare(b.lo, a) })
		if !ok {
			return len(g.blocks)
		}
		return i
	}
	for i, lo := range leaders {
		if lo >= f.end() {
			break
		}
		hi := f.end()
		if i+1 < len(leaders) {
			hi = leaders[i+1]
		}
		g.blocks = append(g.blocks, block{lo: lo, hi: hi})
	}
	exit := len(g.blocks)
	k := 0
	for i := range g.blocks {
		bl := &g.blocks[i]
		var tail uint64
		for k < len(order) && order[k] < bl.hi {
			if order[k] >= bl.lo {
				tail = order[k]
			}
			k++
		}
		if s := ends[tail]; s != nil {
			for _, to := range s {
				if to != 0 {
					bl.succ = append(bl.succ, index(to))
				}
			}
		} else if n := last[tail]; n != 0 && n < f.end() {
			bl.succ = append(bl.succ, index(n))
		}
		if len(bl.succ) == 0 {
			bl.succ = append(bl.succ, exit)
		}
	}
	g.postdominate()
	return g
}

// blockOf finds the block that holds an instruction.
func (g *flowGraph) blockOf(addr uint64) int {
	i, ok := slices.BinarySearchFunc(g.blocks, addr, func(b block, a uint64) int { return cmp.Compare(b.lo, a) })
	if ok {
		return i
	}
	return i - 1
}

// postdominate computes ipdom by the iterative algorithm of Cooper, Harvey and
// Kennedy on the reversed graph.
func (g *flowGraph) postdominate() {
	n := len(g.blocks)
	exit := n
	preds := make([][]int, n+1) // of the forward graph: successors of the reversed one
	for i := range g.blocks {
		for _, s := range g.blocks[i].succ {
			preds[s] = append(preds[s], i)
		}
	}
	num := make([]int, n+1)
	for i := range num {
		num[i] = -1
	}
	var post []int
	type frame struct{ b, i int }
	stack := []frame{{exit, 0}}
	seen := make([]bool, n+1)
	seen[exit] = true
	for len(stack) > 0 {
		t := &stack[len(stack)-1]
		if t.i < len(preds[t.b]) {
			p := preds[t.b][t.i]
			t.i++
			if !seen[p] {
				seen[p] = true
				stack = append(stack, frame{p, 0})
			}
			continue
		}
		num[t.b] = len(post)
		post = append(post, t.b)
		stack = stack[:len(stack)-1]
	}
	ip := make([]int, n+1)
	for i := range ip {
		ip[i] = -1
	}
	ip[exit] = exit
	for changed := true; changed; {
		changed = false
		for k := len(post) - 2; k >= 0; k-- {
			b := post[k]
			nw := -1
			for _, s := range g.blocks[b].succ {
				if ip[s] < 0 {
					continue
				}
				if nw < 0 {
					nw = s
					continue
				}
				for x, y := nw, s; ; {
					if x == y {
						nw = x
						break
					}
					if num[x] < num[y] {
						x = ip[x]
					} else {
						y = ip[y]
					}
				}
			}
			if nw >= 0 && ip[b] != nw {
				ip[b], changed = nw, true
			}
		}
	}
	for i := range ip {
		if ip[i] < 0 {
			ip[i] = exit // never leaves: an endless loop
		}
	}
	g.ipdom = ip[:n]
}
