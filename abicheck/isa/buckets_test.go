package isa

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBuckets holds the search and the sort against those of the library.
func TestBuckets(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, reach := range []uint64{1, 2, 100, 1 << 12, 1 << 30, 1 << 60, ^uint64(0)} {
		for _, n := range []int{0, 1, 2, 3, 1000} {
			starts := make([]start, n)
			var addrs []uint64
			base := r.Uint64N(^uint64(0) - reach + 1)
			for i := range starts {
				starts[i] = start{addr: base + r.Uint64N(reach), seg: int32(r.IntN(3))}
				addrs = append(addrs, starts[i].addr)
			}
			if n == 1000 && reach > 1<<12 { // most lie together
				for i := range 900 {
					addrs[i] = base + uint64(i)*3
				}
			}
			slices.Sort(addrs)
			b := newBuckets(addrs)
			if len(b.from) > 4*n+8 {
				t.Errorf("%d buckets for %d addresses", len(b.from), n)
			}
			for _, a := range append(slices.Clone(addrs), 0, base, base+reach-1, ^uint64(0), r.Uint64(), r.Uint64()) {
				for _, a := range []uint64{a, a - 1, a + 1} {
					want, ok := slices.BinarySearch(addrs, a)
					if !ok {
						want--
					}
					if got := b.last(addrs, a); got != want {
						t.Fatalf("reach %#x, %d addresses: %#x is after number %d, want %d", reach, n, a, got, want)
					}
				}
			}
			want := make([]int32, n)
			for i := range want {
				want[i] = int32(i)
			}
			slices.SortFunc(want, func(i, j int32) int {
				return cmp.Or(cmp.Compare(starts[i].seg, starts[j].seg), cmp.Compare(starts[i].addr, starts[j].addr), cmp.Compare(i, j))
			})
			if got := sortStarts(starts); !slices.Equal(got, want) {
				t.Fatalf("reach %#x, %d starts: sorted wrong", reach, n)
			}
		}
	}
}
