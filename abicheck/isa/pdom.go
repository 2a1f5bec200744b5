package isa

import (
	"cmp"
	"slices"

	"github.com/thox-ai/thoxbuild/abicheck/isa/x86"
)

// A flowGraph is the basic blocks of one function with their immediate
// post-dominators. A walk keeps those of thousands of functions, so there is
// nothing in it that can be had otherwise.
type flowGraph struct {
	blocks []block // by address
	ipdom  []int32 // index of a block; len(blocks) is the exit
}

type block struct {
	lo, hi uint64   // instruction addresses [lo, hi)
	to     [2]int32 // where it leads: block indices, len(blocks) for the exit, or none
}

// none is no second successor.
const none = -1

// next are the successors of a block.
func (b *block) next() []int32 {
	if b.to[1] == none {
		return b.to[:1]
	}
	return b.to[:]
}

// outside is the target of a conditional branch that leaves its function: the
// exit, though another way leads on.
const outside = ^uint64(0)

// A grapher makes graphs one after the other and keeps its memory.
type grapher struct {
	order   []uint64    // where instructions begin
	ends    []blockEnd  // those behind which a block ends, by address
	leaders []uint64    // where blocks begin
	preds   rows[int32] // of the blocks and the exit
	num     []int32     // postorder numbers, -1 for what the exit cannot be reached from
	post    []int32
	stack   []visit
}

// blockEnd is a branch with its targets: 0 is none.
type blockEnd struct {
	pc uint64
	to [2]uint64
}

// visit is a block of a depth-first search and how many of its predecessors
// were looked at.
type visit struct{ b, i int32 }

// graph builds the blocks of a function. Indirect jumps go to the exit: where
// they lead is unknown.
func (r *grapher) graph(im *image, f *function) *flowGraph {
	end := r.read(im, f)
	slices.Sort(r.leaders)
	r.leaders = slices.Compact(r.leaders)
	if n, _ := slices.BinarySearch(r.leaders, f.end()); n < len(r.leaders) {
		r.leaders = r.leaders[:n]
	}
	n := len(r.leaders)
	g := &flowGraph{blocks: make([]block, n), ipdom: make([]int32, n+1)}
	exit := int32(n)
	index := func(addr uint64) int32 {
		if i, ok := slices.BinarySearch(r.leaders, addr); ok {
			return int32(i)
		}
		return exit
	}
	order, ends := r.order, r.ends
	for i, lo := range r.leaders {
		bl := &g.blocks[i]
		*bl = block{lo, f.end(), [2]int32{none, none}}
		if i+1 < n {
			bl.hi = r.leaders[i+1]
		}
		// A branch into the middle of an instruction begins a block without one.
		first := len(order)
		for len(order) > 0 && order[0] < bl.hi {
			order = order[1:]
		}
		k := 0
		if len(order) < first {
			tail, next := r.order[len(r.order)-len(order)-1], end
			if len(order) > 0 {
				next = order[0]
			}
			for len(ends) > 0 && ends[0].pc < tail {
				ends = ends[1:]
			}
			if len(ends) > 0 && ends[0].pc == tail {
				for _, to := range ends[0].to {
					if to != 0 {
						bl.to[k] = index(to)
						k++
					}
				}
			} else if next < f.end() {
				bl.to[k] = index(next)
				k++
			}
		}
		if k == 0 {
			bl.to[0] = exit
		}
	}
	r.postdominate(g)
	return g
}

// read goes over the instructions of f and notes where blocks begin and end. It
// returns the address behind the last instruction.
func (r *grapher) read(im *image, f *function) (end uint64) {
	r.order, r.ends, r.leaders = r.order[:0], r.ends[:0], append(r.leaders[:0], f.addr)
	var in insn
	pc := f.addr
	for next := pc; pc < f.end(); pc = next {
		r.order = append(r.order, pc)
		if !im.next(f, pc, &in) {
			next = pc + im.unit()
			r.ends = append(r.ends, blockEnd{pc: pc})
			r.leaders = append(r.leaders, next)
			continue
		}
		next = pc + in.size
		var to [2]uint64
		switch in.flow {
		case x86.FlowJcc:
			to = [2]uint64{next, outside}
			if in.to >= f.addr && in.to < f.end() {
				to[1] = in.to
			}
		case x86.FlowJmp:
			if in.to >= f.addr && in.to < f.end() {
				to[0] = in.to
			}
		case x86.FlowRet, x86.FlowStop, x86.FlowJmpInd:
		default:
			continue
		}
		r.ends = append(r.ends, blockEnd{pc, to})
		r.leaders = append(r.leaders, next)
		for _, a := range to {
			if a != 0 && a != outside {
				r.leaders = append(r.leaders, a)
			}
		}
	}
	return pc
}

// maxBlocks bounds the blocks of the graphs that a walker keeps, to some 7 MB.
const maxBlocks = 1 << 18

// graph returns the graph of a function, which is often asked for again soon.
func (w *walker) graph(fn int) *flowGraph {
	g := w.graphs[fn]
	if g == nil {
		g = w.grapher.graph(w.im, &w.im.fns[fn])
		if w.blocks += len(g.blocks); w.blocks > maxBlocks {
			clear(w.graphs)
			w.blocks = len(g.blocks)
		}
		w.graphs[fn] = g
	}
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
func (r *grapher) postdominate(g *flowGraph) {
	exit := int32(len(g.blocks))
	r.number(g)
	ip := g.ipdom // that of the exit is the exit
	for i := range ip {
		ip[i] = none
	}
	ip[exit] = exit
	for changed := true; changed; {
		changed = false
		for k := len(r.post) - 2; k >= 0; k-- {
			b := r.post[k]
			nw := int32(none)
			for _, s := range g.blocks[b].next() {
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
					if r.num[x] < r.num[y] {
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
	g.ipdom = ip[:exit]
}

// number visits the blocks from the exit against their direction: post is the
// order in which they were left, and num the place of each in it.
func (r *grapher) number(g *flowGraph) {
	n := len(g.blocks)
	at := append(r.preds.at[:0], make([]int32, n+3)...)
	for i := range g.blocks {
		for _, s := range g.blocks[i].next() {
			at[s+2]++
		}
	}
	for i := 2; i < len(at); i++ {
		at[i] += at[i-1]
	}
	all := append(r.preds.all[:0], make([]int32, at[n+2])...)
	for i := range g.blocks {
		for _, s := range g.blocks[i].next() {
			all[at[s+1]] = int32(i)
			at[s+1]++
		}
	}
	r.preds = rows[int32]{at, all}
	const unseen, open = -1, -2
	r.num = append(r.num[:0], make([]int32, n+1)...)
	for i := range r.num {
		r.num[i] = unseen
	}
	r.post = r.post[:0]
	r.stack = append(r.stack[:0], visit{int32(n), 0})
	r.num[n] = open
	for len(r.stack) > 0 {
		t := &r.stack[len(r.stack)-1]
		if preds := r.preds.of(int(t.b)); int(t.i) < len(preds) {
			p := preds[t.i]
			t.i++
			if r.num[p] == unseen {
				r.num[p] = open
				r.stack = append(r.stack, visit{p, 0})
			}
			continue
		}
		r.num[t.b] = int32(len(r.post))
		r.post = append(r.post, t.b)
		r.stack = r.stack[:len(r.stack)-1]
	}
}
