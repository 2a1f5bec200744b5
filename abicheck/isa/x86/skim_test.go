package x86

import (
	"debug/elf"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// agree fails unless Skim says of b what Decode says, or nothing.
func agree(t *testing.T, b *[16]byte) (known bool) {
	t.Helper()
	n, what, rel, feat := Skim(b)
	if n == 0 {
		return false
	}
	in, ok := Decode(b[:])
	if !ok || n != int(in.Len) || feat != in.Feat {
		t.Fatalf("% x: Skim gives %d bytes, %v; Decode %v, %d, %v", *b, n, feat, ok, in.Len, in.Feat)
	}
	branch := in.Flow == FlowJcc || in.Flow == FlowJmp || in.Flow == FlowCall
	if branch != (what&Branch != 0) || branch && int64(rel) != in.Imm {
		t.Fatalf("% x: flow %d by %#x, branch %v by %#x", *b, in.Flow, in.Imm, what&Branch != 0, rel)
	}
	if rip := in.Flags&IsRIP != 0; rip != (what&Relative != 0) || rip && (rel != in.Disp || in.Flow != FlowNext) {
		t.Fatalf("% x: operand %v at %#x, flow %d; Skim %v at %#x", *b, rip, in.Disp, in.Flow, what&Relative != 0, rel)
	}
	if vec := in.Enc == EncVEX || in.Enc == EncEVEX; vec != (what&Vector != 0) || !vec && in.Enc != EncLegacy {
		t.Fatalf("% x: encoding %d, vector %v", *b, in.Enc, what&Vector != 0)
	}
	if sse := in.Enc == EncLegacy && in.Map == 1 && VectorOp(in.Op); sse != (what&Baseline != 0) {
		t.Fatalf("% x: baseline vector code: %v", *b, what&Baseline != 0)
	}
	if in.Map == 1 && in.Enc == EncLegacy && (in.Op == 0xa2 || in.Op == 0x01) {
		t.Fatalf("% x: a question to the processor was skimmed", *b)
	}
	return true
}

// TestSkim holds Skim against Decode: every opcode of every map with every
// ModRM byte and the usual prefixes, and random bytes.
func TestSkim(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	fill := func(b *[16]byte) {
		for i := range b {
			b[i] = byte(r.Uint32())
		}
	}
	tried, known := 0, 0
	try := func(head ...byte) {
		var b [16]byte
		fill(&b)
		copy(b[:], head)
		tried++
		if agree(t, &b) {
			known++
		}
	}
	heads := [][]byte{{}, {0x48}, {0x41}, {0x66}, {0xf2}, {0xf3}, {0x66, 0x48}, {0xf3, 0x45}, {0x48, 0x66}, {0x66, 0xf2}, {0x67}, {0xf0}}
	for op := range 256 {
		for m := range 256 {
			for _, h := range heads {
				try(append(append([]byte{}, h...), byte(op), byte(m))...)
				try(append(append([]byte{}, h...), 0x0f, byte(op), byte(m))...)
			}
			for pp := range byte(4) {
				x := byte(r.Uint32())
				try(0xc5, x&^3|pp, byte(op), byte(m))
				for vm := range byte(8) {
					try(0xc4, x&^31|vm, byte(r.Uint32())&^3|pp, byte(op), byte(m))
					try(0x62, x&^7|vm, byte(r.Uint32())&^3|pp, byte(r.Uint32()), byte(op), byte(m))
					try(0x62, 0xf0|vm, 0x7c|pp|byte(r.Uint32())&0x80, byte(r.Uint32()), byte(op), byte(m))
				}
			}
		}
	}
	n := 1 << 18
	if os.Getenv("THOXBUILD_TEST_FULL") != "" {
		n = 1 << 25
	}
	for range n {
		try()
	}
	if known < tried/8 {
		t.Errorf("%d of %d encodings were skimmed", known, tried)
	}
	t.Logf("%d of %d encodings were skimmed", known, tried)
}

// FuzzSkim holds Skim against Decode.
func FuzzSkim(f *testing.F) {
	for _, s := range []string{"\xc5\xf8\x77", "\x62\xf1\x7c\x48\x58\x41\x01", "\x48\x8b\x05", "\xf7\xc0", "\xff\x25", "\x66\x48\xb8"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var b [16]byte
		copy(b[:], in)
		agree(t, &b)
	})
}

// TestSkimLibrary holds Skim against Decode on real code, most of which it has
// to know.
func TestSkimLibrary(t *testing.T) {
	for _, file := range libraries(t) {
		f, err := elf.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		var insns, known, bytes int
		for _, fn := range functions(t, f) {
			for at := 0; at < len(fn.code); {
				var b [16]byte
				copy(b[:], fn.code[at:])
				insns++
				if agree(t, &b) {
					known++
				}
				in, ok := Decode(fn.code[at:])
				if !ok {
					in.Len = 1
				}
				at += int(in.Len)
			}
			bytes += len(fn.code)
		}
		f.Close()
		t.Logf("%s: %d bytes, %d instructions, %.1f%% of them skimmed", filepath.Base(file), bytes, insns, 100*float64(known)/float64(insns))
		if insns > 0 && float64(known) < 0.9*float64(insns) {
			t.Errorf("%s: %d of %d instructions were skimmed", file, known, insns)
		}
	}
}
