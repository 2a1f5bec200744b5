package isa

import (
	"runtime"
	"slices"
	"sync"
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

// newIndex reads all functions, several at a time.
func newIndex(im *image) *index {
	n := len(im.fns)
	x := &index{guard: make([]bool, n), out: make([]bool, n), lookup: make([]bool, n)}
	workers := max(1, min(runtime.GOMAXPROCS(0), n/256))
	if im.machine != machineX86 {
		workers = 1 // what AArch64 code names is worked out in one place
	}
	type part struct {
		calls, callLen []int32
		data           []dataRef
		dataLen        []int32
	}
	parts := make([]part, workers)
	var wg sync.WaitGroup
	for k := range workers {
		wg.Go(func() {
			p := &parts[k]
			for i := k * n / workers; i < (k+1)*n/workers; i++ {
				r := im.refs(i)
				x.guard[i], x.out[i], x.lookup[i] = r.guard, r.out, r.lookup
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
			}
		})
	}
	wg.Wait()
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
		for _, c := range p.calls {
			count[c+1]++
		}
		*p = part{}
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
