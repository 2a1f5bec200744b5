package isa

import (
	"context"
	"debug/elf"
	"slices"
	"testing"

	"github.com/thox-ai/thoxbuild/abicheck/isa/x86"
)

// FuzzWalk holds for any bytes as code that a walk ends, that what it reports
// is an instruction above the baseline inside a function, and that a second
// walk says the same.
func FuzzWalk(f *testing.F) {
	f.Add([]byte{0x0f, 0xa2, 0xa9, 0, 1, 0, 0, 0x74, 0x03, 0xc5, 0xf8, 0x77, 0xc3}, uint16(64))
	f.Add([]byte{0x55, 0x48, 0x89, 0xe5, 0x31, 0xc0, 0x85, 0xc0, 0x75, 0x02, 0xeb, 0xfe, 0xc5, 0xf8, 0x77, 0xc9, 0xc3}, uint16(16))
	f.Add([]byte{0x83, 0x3d, 0, 0, 0x10, 0, 0, 0x7f, 0x05, 0xe8, 0xf0, 0xff, 0xff, 0xff, 0xc4, 0xe2, 0x7d, 0x18, 0x07, 0xc3}, uint16(32))
	f.Fuzz(func(t *testing.T, code []byte, each uint16) {
		if len(code) == 0 || len(code) > 1<<14 {
			return
		}
		step := uint64(each%256) + 8
		tg, _, err := targetFor(elf.EM_X86_64, "", false)
		if err != nil {
			t.Fatal(err)
		}
		walk := func() (all [][]hit) {
			im := &image{
				machine: elf.EM_X86_64, imports: map[uint64]string{},
				text:     []segment{{addr: 0x1000, bytes: code}},
				writable: func(a uint64) bool { return a >= 0x100000 && a < 0x200000 },
				state:    []dataSym{{"__cpu_model", 0x101000, 16}},
			}
			im.slots.set(0x102000, slot{addr: 0x1000})
			im.slots.set(0x102008, slot{name: "getauxval"})
			var starts []start
			for a := uint64(0); a < uint64(len(code)); a += step {
				starts = append(starts, start{addr: 0x1000 + a, sym: -1, group: -1, typ: elf.STT_FUNC})
			}
			if err := im.cut(starts, nil); err != nil {
				t.Fatal(err)
			}
			if err := im.scanIndexed(context.Background(), &tg, false); err != nil {
				t.Fatal(err)
			}
			w := newWalker(im, &tg, false)
			w.findState([]int{0})
			all = append(all, w.from(0))
			w.findState(nil)
			for i := range im.fns {
				all = append(all, w.from(i))
			}
			for _, hits := range all {
				for _, h := range hits {
					fn := im.at(h.addr)
					if fn < 0 {
						t.Fatalf("a hit at %#x, outside of every function", h.addr)
					}
					in, ok := x86.Decode(im.code(&im.fns[fn])[h.addr-im.fns[fn].addr:])
					if !ok || tg.above(uint64(in.Feat), false) == 0 {
						t.Fatalf("a hit at %#x, which is not above the baseline", h.addr)
					}
				}
			}
			return all
		}
		same := func(a, b []hit) bool {
			return slices.EqualFunc(a, b, func(x, y hit) bool { return x.addr == y.addr && x.fn == y.fn })
		}
		if a, b := walk(), walk(); !slices.EqualFunc(a, b, same) {
			t.Fatalf("two walks differ:\n%v\n%v", a, b)
		}
	})
}
