package isa

import (
	"context"
	"slices"
)

// An index holds, for every function of an image, whom it calls and which data
// it touches. The numbers of all functions lie in few slices: a large library
// has millions of them.
type index struct {
	calls   rows[int32]
	callers rows[int32]
	data    rows[dataRef]
	guard   []bool // asks the CPU or the system what it can do
	lookup  []bool // looks such a function up by its name
	out     []bool // calls a function that answers such a question through a pointer
}

// rows are slices of different lengths, one after the other.
type rows[T any] struct {
	at  []int32
	all []T
}

func (r *rows[T]) of(i int) []T { return r.all[r.at[i]:r.at[i+1]] }

// A dataRef is an address of data that code may change, with how it is used in
// the upper bits.
type dataRef uint64

const (
	refLea   dataRef = 1 << 61 // its address taken
	refRead  dataRef = 1 << 62 // read, or its address taken
	refTouch dataRef = 1 << 63 // read or written
	refAddr          = refLea - 1
)

// state data beyond this is no address of an image that fits in memory.
const maxAddr = 1 << 60

// An indexPart is the index of a run of functions.
type indexPart struct {
	calls, callLen []int32
	data           []dataRef
	dataLen        []int32
	guard, out     []bool
	lookup         []bool
}

// add appends what the next function refers to.
func (p *indexPart) add(im *image, r *ref) {
	r.tidy()
	c, d := len(p.calls), len(p.data)
	for _, callee := range r.calls {
		p.calls = append(p.calls, int32(callee))
	}
	for _, a := range r.reads {
		p.data = im.ref(p.data, a, refRead)
	}
	for _, a := range r.leas {
		p.data = im.ref(p.data, a, refRead|refLea)
	}
	for _, a := range r.touch {
		p.data = im.ref(p.data, a, refTouch)
	}
	p.callLen = append(p.callLen, int32(len(p.calls)-c))
	p.dataLen = append(p.dataLen, int32(len(p.data)-d))
	p.guard, p.out, p.lookup = append(p.guard, r.guard), append(p.out, r.out), append(p.lookup, r.lookup)
}

// newIndex reads all functions, where no scan has made the index already.
func newIndex(im *image) *index {
	if im.index == nil {
		parts := make([]indexPart, (len(im.fns)+chunk-1)/chunk)
		im.eachChunk(context.Background(), func(k, lo, hi int) { // it fails when it is cancelled
			own := *im // what AArch64 code names is kept for one function at a time
			for i := lo; i < hi; i++ {
				if own.stopped() {
					return
				}
				r := own.refs(i)
				parts[k].add(&own, &r)
			}
		})
		if im.stopped() { // the answer is not waited for
			parts = []indexPart{{callLen: make([]int32, len(im.fns)), dataLen: make([]int32, len(im.fns)),
				guard: make([]bool, len(im.fns)), out: make([]bool, len(im.fns)), lookup: make([]bool, len(im.fns))}}
		}
		im.index = assemble(len(im.fns), parts)
	}
	return im.index
}

// assemble joins the parts of n functions, and turns calls round.
func assemble(n int, parts []indexPart) *index {
	x := &index{guard: make([]bool, 0, n), out: make([]bool, 0, n)}
	x.calls.at, x.data.at = make([]int32, 1, n+1), make([]int32, 1, n+1)
	count := make([]int32, n+1)
	for k := range parts {
		p := &parts[k]
		for j := range p.callLen {
			x.calls.at = append(x.calls.at, x.calls.at[len(x.calls.at)-1]+p.callLen[j])
			x.data.at = append(x.data.at, x.data.at[len(x.data.at)-1]+p.dataLen[j])
		}
		x.calls.all = append(x.calls.all, p.calls...)
		x.data.all = append(x.data.all, p.data...)
		x.guard, x.out, x.lookup = append(x.guard, p.guard...), append(x.out, p.out...), append(x.lookup, p.lookup...)
		for _, c := range p.calls {
			count[c+1]++
		}
		*p = indexPart{}
	}
	for i := range n {
		count[i+1] += count[i]
	}
	x.callers.at = count
	x.callers.all = make([]int32, len(x.calls.all))
	next := slices.Clone(count)
	for i := range n {
		for _, c := range x.calls.of(i) {
			x.callers.all[next[c]] = int32(i)
			next[c]++
		}
	}
	return x
}

// ref adds a use of the data at a, unless nothing can change it.
func (im *image) ref(refs []dataRef, a uint64, use dataRef) []dataRef {
	if a == 0 || a >= maxAddr || !im.writable(a) && !im.holdsState(a) {
		return refs
	}
	return append(refs, dataRef(a)|use)
}

// holdsState reports whether a lies in an object whose name tells what it holds.
func (im *image) holdsState(a uint64) bool {
	return slices.ContainsFunc(im.state, func(s dataSym) bool { return a-s.addr < s.size })
}
