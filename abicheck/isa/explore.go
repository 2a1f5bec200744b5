package isa

import (
	"slices"

	"github.com/thox-ai/thoxbuild/abicheck/isa/x86"
)

// state is what is known at a point: which registers, stack slots and flags
// come from a CPU test. It is comparable, to recognise a point seen before.
type state struct {
	regs   uint32
	slots  uint64
	sp, bp int32
	flags  bool
	framed bool // the frame pointer holds bp
	// What else is known, by the explorer's number for it; see value.
	known     [32]uint8
	slotKnown [64]uint8
	vecs      uint32 // vector registers that come from a CPU test
	cmp       uint8  // the flags, where they are known
}

// vague is st without what is known besides where values come from.
func (st *state) vague() {
	st.known, st.slotKnown, st.cmp = [32]uint8{}, [64]uint8{}, 0
}

// An explorer walks one function.
type explorer struct {
	w     *walker
	fn    int
	f     *function
	depth int
	out   *summary
	slots map[int32]uint8 // stack offset -> bit
	nest  int
	tests map[uint64]*summary // what both arms of a test reach, by its address
	steps int

	arms    map[int][]write // what the arms of the test at the end of a block write
	offsets []int32         // of the slots, by their bit
	escaped int32           // the lowest stack address that something may be stored behind
	values  []value
	valueID map[value]uint8

	asks bool // looks a guard function up by its name
}

// maxSteps bounds the instructions that are looked at in one function: a
// generated dispatcher of that size is not understood, and its walk ends.
const maxSteps = 1 << 19

// maxStates bounds the states in which one place is looked at, and maxPrecise
// those that may differ in more than where values come from.
const (
	maxStates  = 48
	maxPrecise = 8
)

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
		if count[a] >= maxPrecise {
			st.vague()
		}
		p := point{a, st}
		if a != stop && !seen[p] && count[a] < maxStates {
			seen[p] = true
			count[a]++
			work = append(work, p)
		}
	}
	for len(work) > 0 && !x.w.im.stopped() {
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
		x.steps++
		if w.steps++; x.steps > min(maxSteps, 256*int(f.insns)+4096) || w.steps > w.limit {
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
			x.step(&in, pc, &st, s)
		case x86.FlowJcc:
			if in.tests(&st) {
				x.test(pc, next, in.to, st, s, push)
				return
			}
			if taken, ok := in.decided(&st); ok && !taken {
				push(next, st)
				return
			} else if !ok {
				push(next, st)
			}
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
				x.clobber(&st, x.asks && st.regs&in.tested != 0)
			}
		case x86.FlowRet:
			s.ret = s.ret || st.regs&w.abi.result != 0 || x.tainted(x.reg(&st, 0), &st)
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
	g := x.w.graph(x.fn)
	b := g.blockOf(pc)
	ip := int(g.ipdom[b])
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
		for _, h := range arms[0].hits {
			if arms[1].has(h.addr) {
				both.add(h)
			}
		}
		both.ret = arms[0].ret || arms[1].ret
		both.outs = append(arms[0].outs, arms[1].outs...)
	}
	if both != nil {
		for _, h := range both.hits {
			s.add(h)
		}
		s.ret = s.ret || both.ret
		for _, o := range both.outs {
			s.stores(o.arg, o.off)
		}
	}
	// What the arms write depends on the test.
	x.implicit(g, b, ip, &st, s)
	if join != 0 {
		push(join, st)
	} else {
		s.ret = true
	}
}

// implicit taints what the blocks between a test and its join write.
func (x *explorer) implicit(g *flowGraph, b, ip int, st *state, s *summary) {
	writes, ok := x.arms[b]
	if !ok {
		writes = x.writes(g, b, ip)
		x.arms[b] = writes
	}
	for i := range writes {
		x.spoil(&writes[i].in, writes[i].pc, st, s)
	}
}

// A write is an instruction that changes more than the flags.
type write struct {
	pc uint64
	in insn
}

// writes lists the instructions that write something between the end of block
// b and ip, each register once.
func (x *explorer) writes(g *flowGraph, b, ip int) []write {
	var out []write
	var regs, vecs uint32
	seen := map[int32]bool{int32(ip): true, int32(len(g.blocks)): true}
	work := slices.Clone(g.blocks[b].next())
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
			r, v, mem := x.changes(&in)
			if !mem && r&^regs == 0 && v&^vecs == 0 {
				continue
			}
			regs, vecs = regs|r, vecs|v
			out = append(out, write{pc, in})
		}
		work = append(work, g.blocks[i].next()...)
	}
	return out
}

// clobber carries st over a call; ret tells whether its result holds a test.
func (x *explorer) clobber(st *state, ret bool) {
	st.regs &^= x.w.abi.scratch
	st.forget(x.w.abi.scratch)
	st.flags, st.cmp = false, 0
	st.vecs &= x.w.abi.vectors
	x.overwritten(st)
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
	ret := name != "" && x.w.im.asks(name)
	if fn >= 0 && fn != x.fn {
		c := x.w.summary(fn, x.context(st), x.depth+1)
		x.receive(c, st, s)
		s.merge(c, x.fn)
		ret = c.ret || x.w.im.fns[fn].guard
	}
	if ret && outGuard(name) {
		for _, r := range x.w.abi.args {
			x.deposit(x.reg(st, r), pointee, st, s)
		}
	}
	if tail {
		s.ret = s.ret || ret
		return
	}
	x.clobber(st, ret || x.asks && name == "dlsym")
}
