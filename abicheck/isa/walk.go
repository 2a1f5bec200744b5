package isa

import (
	"cmp"
	"slices"
)

// A walker follows code from entry points and collects instructions above the
// baseline that no CPU test stands before. A conditional jump whose flags come
// from dispatch state is such a test: both its arms are left out, and the walk
// goes on where they meet again. Indirect calls are not followed.
type walker struct {
	im      *image
	t       *target
	unit    bool // the code was compiled for more than the baseline: tzcnt counts
	d       stateSet
	memo    map[walkKey]*summary
	graphs  map[int]*flowGraph
	blocks  int // of graphs
	grapher grapher
	index   *index
	near    map[int]bool            // functions that a CPU test may be in
	store   func(addr, size uint64) // told where the outcome of a test is stored
	// finding tells that only the state is looked for: results and stores
	// count, hits do not.
	finding bool
	// steps counts the instructions that were looked at. Beyond limit no walk
	// goes on: code that needs that many was made to.
	steps, limit int
	told         map[walkKey]*summary // what that search found
	reach        []bool               // functions that direct calls lead above the baseline from
	abi          *convention
}

// walkKey is a function and which of its argument registers are tainted.
type walkKey struct {
	fn  int
	ctx uint8
}

// summary is what a walk from the start of a function finds.
type summary struct {
	done bool
	ret  bool      // the result holds a CPU test on some return
	hits []hit     // of different instructions, in the order of the walk
	outs []outcome // what it stores behind its arguments
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

// newWalker makes a walker; findState has to come before a walk.
func newWalker(im *image, t *target, unit bool) *walker {
	w := &walker{im: im, t: t, unit: unit, memo: map[walkKey]*summary{}, graphs: map[int]*flowGraph{}, index: newIndex(im), near: map[int]bool{}, abi: &conventionX86}
	if im.machine != machineX86 {
		w.abi = &conventionA64
	}
	w.limit = 1 << 21
	for i := range im.fns {
		w.limit += 64 * int(im.fns[i].insns)
	}
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
	return slices.SortedFunc(slices.Values(s.hits), func(a, b hit) int { return cmp.Compare(a.addr, b.addr) })
}

// above picks the functions of roots that lead above the baseline at all, CPU
// tests or not.
func (w *walker) above(roots []root) []int {
	var out []int
	for _, r := range roots {
		if fn := w.im.at(r.addr); fn >= 0 && w.leads(fn) {
			out = append(out, fn)
		}
	}
	return out
}

// leads reports whether direct calls lead from fn to code above the baseline.
func (w *walker) leads(fn int) bool {
	if w.reach == nil {
		w.reach = make([]bool, len(w.im.fns))
		var work []int32
		for i := range w.im.fns {
			if w.im.fns[i].feat != 0 {
				w.reach[i] = true
				work = append(work, int32(i))
			}
		}
		for len(work) > 0 {
			i := work[len(work)-1]
			work = work[:len(work)-1]
			for _, c := range w.index.callers.of(int(i)) {
				if !w.reach[c] {
					w.reach[c] = true
					work = append(work, c)
				}
			}
		}
	}
	return w.reach[fn]
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
	if depth > maxDepth || w.im.stopped() {
		return s
	}
	f := &w.im.fns[fn]
	if f.trusted {
		s.ret = true
		return s
	}
	if w.finding && (ctx == 0 && !w.near[fn] || f.insns > maxSmall && !f.cpuid) {
		return s
	}
	if !w.finding && !w.leads(fn) {
		// Nothing above the baseline lies behind fn. What it tells its callers
		// is known from the search for the state.
		if old := w.told[key]; old != nil {
			s.ret, s.outs = old.ret, old.outs
			return s
		}
		if ctx == 0 {
			return s
		}
	}
	if ctx == 0 && !w.near[fn] {
		if f.feat != 0 {
			s.add(hit{addr: f.first, fn: fn})
		}
		for _, c := range w.index.calls.of(fn) {
			s.merge(w.summary(int(c), 0, depth+1), fn)
		}
	} else {
		x := &explorer{w: w, fn: fn, f: f, depth: depth, out: s, escaped: never, slots: map[int32]uint8{}, tests: map[uint64]*summary{}, arms: map[int][]write{}, asks: w.index.lookup[fn]}
		st := state{}
		for i, r := range w.abi.args {
			if ctx>>i&1 != 0 {
				st.regs |= 1 << r
			}
			x.setReg(&st, r, value{kind: argument, arg: uint8(i)})
		}
		if r, ok := w.abi.indirect(); ok {
			x.setReg(&st, r, value{kind: argument, arg: indirectResult})
		}
		x.explore(f.addr, st, 0, s)
	}
	s.done = true
	return s
}

func (s *summary) add(h hit) {
	if len(s.hits) < maxHits && !s.has(h.addr) {
		s.hits = append(s.hits, h)
	}
}

// has reports whether the instruction at addr is among the hits.
func (s *summary) has(addr uint64) bool {
	return slices.ContainsFunc(s.hits, func(h hit) bool { return h.addr == addr })
}

// merge adds the hits of a callee of fn.
func (s *summary) merge(callee *summary, fn int) {
	for _, h := range callee.hits {
		if !s.has(h.addr) {
			s.add(hit{addr: h.addr, fn: h.fn, chain: &link{fn, h.chain}})
		}
	}
}
