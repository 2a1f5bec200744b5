package a64

import (
	"encoding/binary"
	"math/bits"
	"testing"
)

// FuzzDecode holds what must be true of every word: an access has its base
// among what it reads, a value has a register that is written, a branch leads
// to a word, and a feature has a name.
func FuzzDecode(f *testing.F) {
	for _, w := range []uint32{
		0xd503201f, 0x94000000, 0x54000001, 0xa9be7bfd, 0xf9400421, 0x90000010, 0x39400210, 0x34000010, // common code
		0xd5380600, 0x38bfc041, 0x48207c82, 0x4e809420, 0x04e0e3e0, 0xd65f0bff, 0x0c40a020, 0x3dc00022,
	} {
		f.Add(binary.LittleEndian.AppendUint32(nil, w))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for ; len(data) >= 4; data = data[4:] {
			check(t, binary.LittleEndian.Uint32(data))
		}
	})
}

func check(t *testing.T, w uint32) {
	d, feat := Decode(w), Classify(w)
	if n := bits.Len64(uint64(feat)); n > len(names) {
		t.Errorf("%08x: feature bit %d has no name", w, n-1)
	}
	if bits.OnesCount64(uint64(feat)) > 1 {
		t.Errorf("%08x: needs %v: one instruction has one feature", w, feat)
	}
	if d.Base != NoReg && d.Read>>(d.Base&31)&1 == 0 {
		t.Errorf("%08x: its base x%d is not read: %+v", w, d.Base, d)
	}
	if d.Base == NoReg && (d.Wback != NoWback || d.MemWrite || d.MemRead && d.Op != Literal && d.Vt == NoReg) {
		t.Errorf("%08x: an access without a base: %+v", w, d)
	}
	for _, r := range []uint8{d.Rt, d.Rt2, d.Rd, d.Rn, d.Rm, d.Base, d.Index} {
		if r > SP && r != NoReg {
			t.Errorf("%08x: register %d: %+v", w, r, d)
		}
	}
	switch d.Op {
	case Load:
		if !d.MemRead || d.Rt != NoReg && d.Write>>(d.Rt&31)&1 == 0 {
			t.Errorf("%08x: a load that does not write its register: %+v", w, d)
		}
	case Store:
		if !d.MemWrite || d.Rt != NoReg && d.Read>>(d.Rt&31)&1 == 0 {
			t.Errorf("%08x: a store that does not read its register: %+v", w, d)
		}
	case ADR, ADRP, AddImm, Move, MoveImm, ReadID, Zero:
		if d.MemRead || d.MemWrite || d.Flow != Next || d.Rd != NoReg && d.Write != 1<<d.Rd {
			t.Errorf("%08x: a value that goes elsewhere: %+v", w, d)
		}
	}
	switch d.Flow {
	case Cond:
		if d.Imm%4 != 0 || d.FlagRead == (d.Tested != 0) {
			t.Errorf("%08x: a conditional branch on nothing, or between words: %+v", w, d)
		}
	case Jump, Call:
		if d.Imm%4 != 0 {
			t.Errorf("%08x: a branch between words: %+v", w, d)
		}
	}
	if (d.Flow == Call || d.Flow == CallReg) && d.Write>>30&1 == 0 {
		t.Errorf("%08x: a call that leaves x30 alone: %+v", w, d)
	}
}

// TestDecodeAll goes over every word with a stride that visits all values of
// the bits that tell instructions apart.
func TestDecodeAll(t *testing.T) {
	const stride = 257 // a prime: no bit stays fixed
	for w := uint64(0); w < 1<<32; w += stride {
		check(t, uint32(w))
		if t.Failed() {
			return
		}
	}
}
