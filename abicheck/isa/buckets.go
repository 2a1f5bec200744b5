package isa

import (
	"cmp"
	"math/bits"
	"slices"
)

// buckets say where in a sorted list of addresses a search begins: half as
// many again as there are addresses, so that few are left to look at.
type buckets struct {
	base  uint64
	shift uint
	from  []int32 // bucket -> the first address in it or behind; one more than there are buckets
}

func newBuckets(addrs []uint64) buckets {
	if len(addrs) == 0 {
		return buckets{}
	}
	b := buckets{base: addrs[0]}
	reach := addrs[len(addrs)-1] - b.base
	b.shift = uint(max(0, bits.Len64(reach)-bits.Len(uint(len(addrs)))))
	b.from = make([]int32, reach>>b.shift+2)
	i := 0
	for k := range b.from[:len(b.from)-1] {
		for i < len(addrs) && (addrs[i]-b.base)>>b.shift < uint64(k) {
			i++
		}
		b.from[k] = int32(i)
	}
	b.from[len(b.from)-1] = int32(len(addrs))
	return b
}

// last finds the last of addrs, which b was made for, that is not above addr:
// -1 if there is none. Of equal ones it is the first.
func (b *buckets) last(addrs []uint64, addr uint64) int {
	if len(b.from) == 0 || addr < b.base {
		return -1
	}
	k := (addr - b.base) >> b.shift
	if k >= uint64(len(b.from)-1) {
		return len(addrs) - 1
	}
	lo, hi := int(b.from[k]), int(b.from[k+1])
	i, ok := slices.BinarySearch(addrs[lo:hi], addr)
	if i += lo; ok {
		return i
	}
	return i - 1
}

// sortStarts returns the numbers of starts by segment and address, and equal
// ones in their order. Numbers are sorted, not functions, which are large, and
// digit by digit: a large library has half a million.
func sortStarts(starts []start) []int32 {
	order, next := make([]int32, len(starts)), make([]int32, len(starts))
	lo, hi := ^uint64(0), uint64(0)
	for i := range starts {
		order[i] = int32(i)
		lo, hi = min(lo, starts[i].addr), max(hi, starts[i].addr)
	}
	const digit = 11
	var count [1<<digit + 1]int32
	for shift := uint(0); len(starts) > 0 && (hi-lo)>>shift != 0; shift += digit {
		clear(count[:])
		for i := range starts {
			count[(starts[i].addr-lo)>>shift&(1<<digit-1)+1]++
		}
		for d := range 1 << digit {
			count[d+1] += count[d]
		}
		for _, i := range order {
			d := (starts[i].addr - lo) >> shift & (1<<digit - 1)
			next[count[d]] = i
			count[d]++
		}
		order, next = next, order
	}
	bySegment := func(i, j int32) int { return cmp.Compare(starts[i].seg, starts[j].seg) }
	if !slices.IsSortedFunc(order, bySegment) { // an object, or sections that overlap
		slices.SortStableFunc(order, bySegment)
	}
	return order
}
