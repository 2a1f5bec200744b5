package offheap_test

import (
	"testing"

	"github.com/thox-ai/thoxbuild/internal/offheap"
)

type pair struct {
	a uint64
	b int32
}

// TestMake holds that memory is zero, all of it can be written, and pieces do
// not overlap, mapped or not.
func TestMake(t *testing.T) {
	for _, n := range []int{0, 1, 1000, 1 << 16, 1<<20 + 1} {
		var arena offheap.Arena
		for _, a := range []*offheap.Arena{nil, &arena} {
			p, err := offheap.Make[pair](a, n)
			if err != nil {
				t.Fatal(err)
			}
			q, err := offheap.Make[byte](a, n)
			if err != nil {
				t.Fatal(err)
			}
			if len(p) != n || len(q) != n {
				t.Fatalf("%d and %d of %d", len(p), len(q), n)
			}
			for i := range p {
				if p[i] != (pair{}) || q[i] != 0 {
					t.Fatalf("number %d of %d is not zero", i, n)
				}
				p[i], q[i] = pair{uint64(i), -1}, 0xff
			}
			for i := range p {
				if p[i] != (pair{uint64(i), -1}) {
					t.Fatalf("number %d of %d is %v", i, n, p[i])
				}
			}
		}
		arena.Free()
		arena.Free()
	}
}
