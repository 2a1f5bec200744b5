package isa

import (
	"slices"
	"testing"
)

// FuzzFrames: whatever the bytes, ranges are not empty and do not wrap.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{0x14, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 0x10, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0,
		0x10, 0, 0, 0, 0x1c, 0, 0, 0, 0x10, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0}, uint64(0x2000))
	f.Fuzz(func(t *testing.T, b []byte, addr uint64) {
		for s := range parseFrames(b, addr) {
			if s.size == 0 || s.addr+s.size <= s.addr {
				t.Fatalf("%+v", s)
			}
		}
	})
}

func TestFrames(t *testing.T) {
	b := []byte{0x14, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 0x10, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0,
		0x10, 0, 0, 0, 0x1c, 0, 0, 0, 0x10, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0}
	got := slices.Collect(parseFrames(b, 0x2000))
	if len(got) != 1 || got[0] != (span{0x2000 + 0x20 + 0x10, 0x20}) {
		t.Errorf("got %+v", got)
	}
}
