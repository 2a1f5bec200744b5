package isa

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/thox-ai/thoxbuild/internal/offheap"
)

// TestSlots holds the table against a map, with room for nothing, for too
// little and for all of it.
func TestSlots(t *testing.T) {
	for _, n := range []int{-1, 0, 3, 30000, 70000} {
		var mem offheap.Arena
		defer mem.Free()
		var s slots
		if n >= 0 {
			if err := s.reserve(n, &mem); err != nil {
				t.Fatal(err)
			}
		}
		room := len(s.cells)
		fillSlots(t, &s)
		if n >= s.n && len(s.cells) != room {
			t.Errorf("%d cells for %d slots became %d", room, n, len(s.cells))
		}
	}
}

func fillSlots(t *testing.T, s *slots) {
	if _, ok := s.at(0); ok {
		t.Error("an empty table has a slot at 0")
	}
	if _, _, ok := s.bounds(); ok {
		t.Error("an empty table has bounds")
	}
	r := rand.New(rand.NewPCG(1, 2))
	want := map[uint64]slot{}
	for i := range 50000 {
		place := r.Uint64N(40000) * 8
		if i%100 == 0 {
			place = r.Uint64()
		}
		v := slot{addr: r.Uint64() >> 1}
		if i%7 == 0 {
			v = slot{name: fmt.Sprint("sym", i)}
		}
		s.set(place, v)
		want[place] = v
	}
	if s.n != len(want) {
		t.Errorf("%d slots, want %d", s.n, len(want))
	}
	lo, hi := ^uint64(0), uint64(0)
	for place, v := range want {
		if got, ok := s.at(place); !ok || got != v {
			t.Fatalf("at %#x: %v %v, want %v", place, got, ok, v)
		}
		if _, ok := s.at(place + 1); ok != (want[place+1] != slot{}) {
			t.Fatalf("at %#x there is a slot", place+1)
		}
		lo, hi = min(lo, place), max(hi, place)
	}
	if a, z, ok := s.bounds(); !ok || a != lo || z != hi {
		t.Errorf("bounds %#x to %#x, want %#x to %#x", a, z, lo, hi)
	}
}
