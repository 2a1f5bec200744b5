package isa

import (
	"cmp"
	"maps"
	"slices"

	"github.com/thox-ai/thoxbuild/abicheck/isa/x86"
)

// A walker follows code from entry points and collects instructions above the
// baseline that no CPU test stands before. A conditional jump whose flags come
// from dispatch state is such a test: both its arms are left out, and the walk
// goes on where they meet again. Indirect calls are not followed.
type walker struct {
	im     *image
	t      *target
	unit   bool // the code was compiled for more than the baseline: tzcnt counts
	d      stateSet
	evid   map[int]bool // functions that read dispatch state or ask the CPU
	memo   map[walkKey]*summary
	graphs map[int]*flowGraph
	plain  map[int]*links
	nearTo map[nearKey]bool
	store  func(addr, size uint64) // told where a tainted value is stored
	abi    *convention
}

// walkKey is a function and which of its argument registers are tainted.
type walkKey struct {
	fn  int
	ctx uint8
}

// summary is what a walk from the start of a function finds.
type summary struct {
	done bool
	ret  bool           // the result holds a CPU test on some return
	hits map[uint64]hit // by instruction address
}

// hit is an instruction above the baseline with the calls that led to it.
type hit struct {
	addr  uint64
	fn    int
	chain *link
}

// link is a chain of callers, innermost first.
type link struct {
	fn   int
	next *link
}

// maxHits bounds what one summary keeps: further ones have the same causes.
const maxHits = 24

func newWalker(im *image, t *target, unit bool) *walker {
	w := &walker{im: im, t: t, unit: unit, memo: map[walkKey]*summary{}, graphs: map[int]*flowGraph{}, plain: map[int]*links{}, nearTo: map[nearKey]bool{}, evid: map[int]bool{}, abi: &conventionX86}
	if im.machine != machineX86 {
		w.abi = &conventionA64
	}
	w.findState()
	return w
}

// from walks from function fn with no knowledge and returns the hits in order
// of their addresses.
func (w *walker) from(fn int) []hit { return w.with(fn, 0) }

// resolver is from for an IFUNC resolver, which AArch64 gives AT_HWCAP and a
// pointer to more of the kind.
func (w *walker) resolver(fn int) []hit {
	if w.im.machine != machineX86 {
		return w.with(fn, 3)
	}
	return w.with(fn, 0)
}

func (w *walker) with(fn int, ctx uint8) []hit {
	s := w.summary(fn, ctx, 0)
	return slices.SortedFunc(maps.Values(s.hits), func(a, b hit) int { return cmp.Compare(a.addr, b.addr) })
}

// links are the direct callees of a function, and whether a test may be near.
type links struct {
	calls []int
	near  bool
}

func (w *walker) links(fn int) *links {
	if l := w.plain[fn]; l != nil {
		return l
	}
	l := &links{}
	r := w.im.refs(fn)
	l.calls = r.calls
	l.near = r.guard || slices.ContainsFunc(r.reads, w.d.has) || slices.ContainsFunc(r.leas, w.d.has)
	w.plain[fn] = l
	return l
}

type nearKey struct{ fn, depth int }

// near reports whether fn, or what it calls within depth calls, asks the CPU.
func (w *walker) near(fn, depth int) bool {
	l := w.links(fn)
	if l.near || w.evid[fn] {
		return true
	}
	if depth == 0 || len(l.calls) > 64 {
		return false
	}
	k := nearKey{fn, depth}
	if n, ok := w.nearTo[k]; ok {
		return n
	}
	n := slices.ContainsFunc(l.calls, func(c int) bool {
		return w.im.fns[c].insns <= maxSmall && w.near(c, depth-1)
	})
	w.nearTo[k] = n
	return n
}

// maxDepth bounds recursion; deeper code is not followed.
const maxDepth = 2000

func (w *walker) summary(fn int, ctx uint8, depth int) *summary {
	key := walkKey{fn, ctx}
	if s := w.memo[key]; s != nil {
		return s // possibly still growing, in a cycle of calls
	}
	s := &summary{}
	w.memo[key] = s
	if depth > maxDepth {
		return s
	}
	f := &w.im.fns[fn]
	if ctx == 0 && !w.near(fn, 2) {
		if f.feat != 0 {
			s.add(hit{addr: f.first, fn: fn})
		}
		for _, c := range w.links(fn).calls {
			s.merge(w.summary(c, 0, depth+1), fn)
		}
	} else {
		x := &explorer{w: w, fn: fn, f: f, depth: depth, out: s, slots: map[int32]uint8{}, tests: map[uint64]*summary{}}
		st := state{}
		for i, r := range w.abi.args {
			if ctx>>i&1 != 0 {
				st.regs |= 1 << r
			}
		}
		x.explore(f.addr, st, 0, s)
	}
	s.done = true
	return s
}

func (s *summary) add(h hit) {
	if s.hits == nil {
		s.hits = map[uint64]hit{}
	}
	if _, ok := s.hits[h.addr]; !ok && len(s.hits) < maxHits {
		s.hits[h.addr] = h
	}
}

// merge adds the hits of a callee of fn.
func (s *summary) merge(callee *summary, fn int) {
	for a, h := range callee.hits {
		if _, ok := s.hits[a]; !ok {
			s.add(hit{addr: a, fn: h.fn, chain: &link{fn, h.chain}})
		}
	}
}

// state is what is known at a point: which registers, stack slots and flags
// come from a CPU test. It is comparable, to recognise a point seen before.
type state struct {
	regs   uint32
	slots  uint64
	sp, bp int32
	flags  bool
	framed bool // rbp holds bp
}

// An explorer walks one function.
type explorer struct {
	w     *walker
	fn    int
	f     *function
	depth int
	out   *summary
	slots map[int32]uint8 // stack offset -> bit
	taken uint64          // slots whose address was taken
	nest  int
	tests map[uint64]*summary // what both arms of a test reach, by its address
	steps int
}

// maxSteps bounds the instructions that are looked at in one function: a
// generated dispatcher of that size is not understood, and its walk ends.
const maxSteps = 1 << 19

const maxStates = 48

type point struct {
	addr uint64
	st   state
}

// explore walks from addr to stop (0: to the end) and adds what it meets to s.
func (x *explorer) explore(addr uint64, st state, stop uint64, s *summary) {
	seen := map[point]bool{}
	count := map[uint64]int{}
	work := []point{{addr, st}}
	push := func(a uint64, st state) {
		p := point{a, st}
		if a != stop && !seen[p] && count[a] < maxStates {
			seen[p] = true
			count[a]++
			work = append(work, p)
		}
	}
	for len(work) > 0 {
		p := work[len(work)-1]
		work = work[:len(work)-1]
		x.run(p.addr, p.st, stop, s, push)
	}
}

// run follows one path until it branches, ends or meets stop.
func (x *explorer) run(pc uint64, st state, stop uint64, s *summary, push func(uint64, state)) {
	w, f := x.w, x.f
	var in insn
	for pc >= f.addr && pc < f.end() && (stop == 0 || pc != stop) {
		if x.steps++; x.steps > maxSteps {
			return
		}
		if !w.im.next(f, pc, &in) {
			return
		}
		if w.t.above(in.feat, w.unit) != 0 && !f.tested {
			s.add(hit{addr: pc, fn: x.fn})
			return
		}
		next := pc + in.size
		switch in.flow {
		case x86.FlowNext:
			x.step(&in, pc, &st)
		case x86.FlowJcc:
			if in.tests(&st) {
				x.test(pc, next, in.to, st, s, push)
				return
			}
			push(next, st)
			if in.to >= f.addr && in.to < f.end() {
				push(in.to, st)
			} else {
				x.call(in.to, true, &st, s)
			}
			return
		case x86.FlowJmp:
			if in.to < f.addr || in.to >= f.end() {
				x.call(in.to, true, &st, s)
				return
			}
			push(in.to, st)
			return
		case x86.FlowJmpInd:
			if in.via != 0 {
				x.callSlot(in.via, true, &st, s)
			}
			return
		case x86.FlowCall:
			x.call(in.to, false, &st, s)
		case x86.FlowCallInd:
			if in.via != 0 {
				x.callSlot(in.via, false, &st, s)
			} else {
				x.clobber(&st, false)
			}
		case x86.FlowRet:
			s.ret = s.ret || st.regs&w.abi.result != 0
			return
		default:
			return
		}
		pc = next
	}
}

// test handles a CPU test at pc: neither arm is walked, but code above the
// baseline that both arms reach has not been tested for.
func (x *explorer) test(pc, next, to uint64, st state, s *summary, push func(uint64, state)) {
	g := x.w.graphs[x.fn]
	if g == nil {
		g = x.w.im.graph(x.f)
		x.w.graphs[x.fn] = g
	}
	b := g.blockOf(pc)
	ip := g.ipdom[b]
	var join uint64
	if ip < len(g.blocks) {
		join = g.blocks[ip].lo
	}
	st.flags = false
	both := x.tests[pc]
	if both == nil && x.nest < 6 {
		both = &summary{}
		x.tests[pc] = both
		x.nest++
		var arms [2]summary
		for i, a := range [2]uint64{next, to} {
			if a >= x.f.addr && a < x.f.end() {
				if a != join {
					x.explore(a, st, join, &arms[i])
				}
			} else {
				t := st
				x.call(a, true, &t, &arms[i])
			}
		}
		x.nest--
		for a, h := range arms[0].hits {
			if _, ok := arms[1].hits[a]; ok {
				both.add(h)
			}
		}
		both.ret = arms[0].ret || arms[1].ret
	}
	if both != nil {
		for _, h := range both.hits {
			s.add(h)
		}
		s.ret = s.ret || both.ret
	}
	// What the arms write depends on the test.
	x.implicit(g, b, ip, &st)
	if join != 0 {
		push(join, st)
	} else {
		s.ret = true
	}
}

// implicit taints what the blocks between a test and its join write.
func (x *explorer) implicit(g *flowGraph, b, ip int, st *state) {
	seen := map[int]bool{ip: true, len(g.blocks): true}
	work := slices.Clone(g.blocks[b].succ)
	var in insn
	for n := 0; len(work) > 0 && n < 64; {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		if seen[i] {
			continue
		}
		seen[i] = true
		n++
		for pc := g.blocks[i].lo; pc < g.blocks[i].hi && x.w.im.next(x.f, pc, &in); pc += in.size {
			x.spoil(&in, pc, st)
		}
		work = append(work, g.blocks[i].succ...)
	}
}

// clobber carries st over a call; ret tells whether its result holds a test.
func (x *explorer) clobber(st *state, ret bool) {
	st.regs &^= x.w.abi.scratch
	st.flags = false
	if ret {
		st.regs |= x.w.abi.result
	}
}

func (x *explorer) call(to uint64, tail bool, st *state, s *summary) {
	fn, name := x.w.im.resolve(to)
	x.enter(fn, name, to, tail, st, s)
}

func (x *explorer) callSlot(slot uint64, tail bool, st *state, s *summary) {
	fn, name := x.w.im.through(slot)
	x.enter(fn, name, 0, tail, st, s)
}

func (x *explorer) enter(fn int, name string, to uint64, tail bool, st *state, s *summary) {
	ret := name != "" && guardCall(name)
	if fn >= 0 && fn != x.fn {
		var ctx uint8
		for i, r := range x.w.abi.args {
			if st.regs>>r&1 != 0 {
				ctx |= 1 << i
			}
		}
		c := x.w.summary(fn, ctx, x.depth+1)
		s.merge(c, x.fn)
		ret = c.ret
	}
	if tail {
		s.ret = s.ret || ret
		return
	}
	x.clobber(st, ret)
	if ret && outGuard(name) {
		st.slots |= x.taken
	}
}
