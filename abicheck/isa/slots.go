package isa

import (
	"math/bits"
	"math/rand/v2"

	"github.com/thox-ai/thoxbuild/internal/offheap"
)

// slots are pointers that a loader or linker fills, by where they stand. The
// zero value is empty. It is a hash table that every worker reads, and a
// large library has hundreds of thousands: what a map keeps besides would not
// fit in a processor's cache.
type slots struct {
	cells []slotCell // a power of two of them
	names []string   // of imports
	n     int
	seed  uint64 // a file cannot choose where its addresses collide
}

// slotCell is a slot; key is its place and 1, so that 0 is an empty cell.
type slotCell struct{ key, to uint64 }

// slotName marks a cell with the number of a name instead of an address.
const slotName = 1 << 63

// at returns the slot at place.
func (s *slots) at(place uint64) (v slot, ok bool) {
	if s.n == 0 {
		return slot{}, false
	}
	c := s.find(place + 1)
	switch {
	case c.key == 0:
		return slot{}, false
	case c.to&slotName != 0:
		return slot{name: s.names[c.to&^slotName]}, true
	}
	return slot{addr: c.to}, true
}

// set replaces the slot at place.
func (s *slots) set(place uint64, v slot) {
	if place == ^uint64(0) {
		return
	}
	if 4*s.n >= 3*len(s.cells) {
		s.rehash(make([]slotCell, max(16, 2*len(s.cells))))
	}
	c := s.find(place + 1)
	if c.key == 0 {
		c.key = place + 1
		s.n++
	}
	if v.name != "" {
		c.to = slotName | uint64(len(s.names))
		s.names = append(s.names, v.name)
	} else {
		c.to = v.addr &^ slotName
	}
}

// reserve makes room for n slots of an empty table in mem.
func (s *slots) reserve(n int, mem *offheap.Arena) error {
	cells, err := offheap.Make[slotCell](mem, 1<<bits.Len(uint(max(16, n+n/3)-1)))
	if err != nil {
		return err
	}
	s.rehash(cells)
	return nil
}

// rehash moves the slots to other cells, a power of two of them.
func (s *slots) rehash(cells []slotCell) {
	old := s.cells
	s.cells = cells
	s.seed = rand.Uint64() | 1
	for _, c := range old {
		if c.key != 0 {
			*s.find(c.key) = c
		}
	}
}

// find returns the cell of a key, or the empty one where it would go.
func (s *slots) find(key uint64) *slotCell {
	mask := uint64(len(s.cells) - 1)
	hi, lo := bits.Mul64(key, s.seed)
	for i := (hi ^ lo>>32) & mask; ; i = (i + 1) & mask {
		if c := &s.cells[i]; c.key == key || c.key == 0 {
			return c
		}
	}
}

// bounds are the places of the first slot and the last; ok is false for none.
func (s *slots) bounds() (lo, hi uint64, ok bool) {
	lo = ^uint64(0)
	for _, c := range s.cells {
		if c.key != 0 {
			lo, hi, ok = min(lo, c.key-1), max(hi, c.key-1), true
		}
	}
	return lo, hi, ok
}
