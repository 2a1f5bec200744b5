package isa

import (
	"encoding/binary"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/isa/a64"
)

// callsA64 lists the direct callees of a function.
func (im *image) callsA64(fn int) []int {
	f := &im.fns[fn]
	b := im.code(f)
	var out []int
	for at := 0; at+4 <= len(b); at += 4 {
		w := binary.LittleEndian.Uint32(b[at:])
		if w&0x7c000000 != 0x14000000 {
			continue
		}
		to := f.addr + uint64(at) + uint64(int64(int32(w<<6)>>4))
		if to >= f.addr && to < f.end() {
			continue
		}
		if c, _ := im.resolve(to); c >= 0 {
			out = append(out, c)
		}
	}
	return out
}

// outlineAtomic reports whether f is a helper of libgcc or compiler-rt that
// tests for LSE itself: by name, or stripped by how it begins, [bti] adrp,
// ldrb, cbz.
func (im *image) outlineAtomic(f *function) bool {
	if im.machine == machineX86 {
		return false
	}
	if strings.HasPrefix(f.name, "__aarch64_cas") || strings.HasPrefix(f.name, "__aarch64_swp") || strings.HasPrefix(f.name, "__aarch64_ld") {
		return true
	}
	b := im.code(f)
	if len(b) >= 4 && binary.LittleEndian.Uint32(b) == 0xd503245f {
		b = b[4:]
	}
	return len(b) >= 12 && len(b) <= 64 &&
		binary.LittleEndian.Uint32(b)&0x9f000000 == 0x90000000 &&
		binary.LittleEndian.Uint32(b[4:])&0xffc00000 == 0x39400000 &&
		binary.LittleEndian.Uint32(b[8:])&0xff000000 == 0x34000000
}

// scanA64 fills in the traits of an AArch64 function.
func (im *image) scanA64(f *function, t *target, isaUnit bool) {
	b := im.code(f)
	for at := 0; at+4 <= len(b); at += 4 {
		f.insns++
		feat := a64.Classify(binary.LittleEndian.Uint32(b[at:]))
		if feat == 0 {
			continue
		}
		if a := t.above(uint64(feat), isaUnit); a != 0 {
			if f.feat == 0 {
				f.first = f.addr + uint64(at)
			}
			f.feat |= a
		}
	}
	if im.outlineAtomic(f) {
		f.feat = 0
	}
}
