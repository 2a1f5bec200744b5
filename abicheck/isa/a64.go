package isa

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/isa/a64"
	"github.com/thox-ai/thoxbuild/abicheck/isa/x86"
)

// conventionA64 is AAPCS64. x19 to x28 survive a call.
var conventionA64 = convention{
	args:    []uint8{0, 1, 2, 3, 4, 5, 6, 7},
	result:  1 << 0,
	scratch: 1<<19 - 1 | 1<<30,
	frame:   1<<29 | 1<<a64.SP,
	vectors: 0xff00,
	large:   8,
}

func word(b []byte, at uint64) uint32 { return binary.LittleEndian.Uint32(b[at:]) }

func (im *image) nextA64(f *function, pc uint64, in *insn) bool {
	b := im.code(f)
	at := pc - f.addr
	if at+4 > uint64(len(b)) {
		return false
	}
	w := word(b, at)
	in.size, in.feat = 4, uint64(a64.Classify(w))
	in.a64 = a64.Decode(w)
	d := &in.a64
	in.to, in.via, in.tested = 0, 0, d.Tested
	in.ref = im.names(f)[at/4]
	switch d.Flow {
	case a64.Cond:
		in.flow, in.to = x86.FlowJcc, pc+uint64(d.Imm)
	case a64.Jump:
		in.flow, in.to = x86.FlowJmp, pc+uint64(d.Imm)
	case a64.Call:
		in.flow, in.to = x86.FlowCall, pc+uint64(d.Imm)
	case a64.JumpReg:
		in.flow = x86.FlowJmpInd
		in.through(x86.FlowJmp)
	case a64.CallReg:
		in.flow, in.tested = x86.FlowCallInd, d.Read
		in.through(x86.FlowCall)
	case a64.Return:
		in.flow = x86.FlowRet
	case a64.Stop:
		in.flow = x86.FlowStop
	default:
		in.flow = x86.FlowNext
	}
	if to, ok := im.branches[pc]; ok {
		in.to = to
	}
	return true
}

// through makes an indirect branch whose register is known a direct one, or
// one through the slot of an import.
func (in *insn) through(direct x86.Flow) {
	switch {
	case in.ref == 0:
	case in.ref&imported != 0:
		in.via = in.ref &^ imported
	default:
		in.flow, in.to = direct, in.ref
	}
}

// refsA64 is refs for AArch64.
func (im *image) refsA64(i int) ref {
	f := &im.fns[i]
	r := ref{fn: i, guard: f.cpuid}
	var dlsym bool
	var consts []uint64
	call := func(c int, name string) {
		if name != "" {
			dlsym = dlsym || name == "dlsym"
			r.guard = r.guard || im.asks(name)
			r.out = r.out || outGuard(name)
		} else if c >= 0 {
			r.calls = append(r.calls, c)
		}
	}
	im.named, im.namesOf = f.addr, im.propagate(f)
	var in insn
	for pc := f.addr; pc < f.end() && im.nextA64(f, pc, &in); pc += 4 {
		switch in.flow {
		case x86.FlowNext:
		case x86.FlowCall, x86.FlowJmp, x86.FlowJcc:
			if in.to < f.addr || in.to >= f.end() {
				call(im.resolve(in.to))
			}
			continue
		default:
			if in.via != 0 {
				call(im.through(in.via))
			}
			continue
		}
		d := &in.a64
		if in.ref == 0 || in.ref&imported != 0 || d.Op == a64.ADRP {
			continue
		}
		if !d.MemRead && !d.MemWrite {
			if im.writable(in.ref) {
				r.leas = append(r.leas, in.ref)
			} else {
				consts = append(consts, in.ref)
			}
			continue
		}
		if s, ok := im.slots.at(in.ref); ok && d.MemRead {
			if s.name != "" && im.holds(s.name) {
				r.guard = true
			}
			r.reads = append(r.reads, s.addr)
		}
		if d.MemRead {
			r.reads = append(r.reads, in.ref)
			if d.Rt2 != a64.NoReg {
				r.reads = append(r.reads, in.ref+uint64(d.Size))
			}
		}
		if im.writable(in.ref) {
			r.touch = append(r.touch, in.ref)
			r.write = r.write || d.MemWrite
		}
	}
	if r.lookup = dlsym && slices.ContainsFunc(consts, im.guardName); r.lookup {
		r.guard = true
	}
	slices.Sort(r.calls)
	r.calls = slices.Compact(r.calls)
	return r
}

// stubA64 follows a PLT stub or a veneer at addr: [bti] adrp, then ldr or add,
// then br. fn is -1 and the name empty if it is neither.
func (im *image) stubA64(addr uint64) (fn int, name string) {
	s := im.segmentAt(addr)
	if s < 0 {
		return -1, ""
	}
	b := im.text[s].bytes[addr-im.text[s].addr:]
	var regs consts
	for pc, n := addr, 0; n < 6 && len(b) >= 4; n++ {
		d := a64.Decode(word(b, 0))
		switch {
		case d.Op == a64.ADR, d.Op == a64.ADRP, d.Op == a64.AddImm && d.Rd != a64.SP, d.Op == a64.Load && d.Size == 8 && d.Rt2 == a64.NoReg && d.Wback == a64.NoWback:
			ref := im.evaluate(&d, pc, &regs)
			if d.Op == a64.Load && ref != 0 && d.Rt != a64.NoReg {
				regs[d.Rt] = ref | imported
			}
		case d.Flow == a64.JumpReg && d.Rn != a64.NoReg:
			switch v := regs[d.Rn] &^ resolved; {
			case v&imported != 0:
				return im.through(v &^ imported)
			case v != 0:
				return im.at(v), ""
			}
			return -1, ""
		case d.Flow == a64.Jump && n == 0:
			return im.at(pc + uint64(d.Imm)), ""
		case d.Flow != a64.Next || d.Write != 0:
			return -1, ""
		}
		b = b[4:]
		pc += 4
	}
	return -1, ""
}

// guarded reports whether f needs no test by its callers, because it is one of
// two helpers of the compiler's own library that test for themselves: an
// outline atomic, by name or stripped by how it begins ([bti] adrp x16, ldrb
// w16, cbz w16), or the unwinder, which asks for the vector length when a
// frame names register 46 of DWARF, and only frames with SVE do.
func (im *image) guarded(f *function) bool {
	if im.machine == machineX86 {
		return false
	}
	b := im.code(f)
	switch f.feat {
	case uint64(a64.LSE), 0:
		if f.flags&outline != 0 {
			return true
		}
		if len(b) >= 4 && word(b, 0) == 0xd503245f {
			b = b[4:]
		}
		return len(b) >= 12 && len(b) <= 64 &&
			word(b, 0)&0x9f00001f == 0x90000010 && word(b, 4)&0xffc003ff == 0x39400210 && word(b, 8)&0xff00001f == 0x34000010
	case uint64(a64.SVE):
		asks := false
		for at := uint64(0); at+4 <= uint64(len(b)); at += 4 {
			switch w := word(b, at); {
			case w&0xffffffe0 == 0x04e0e3e0: // cntd
			case w&0xfffffc1f == 0x7100b81f: // cmp w, #46
				asks = true
			case a64.Classify(w) == a64.SVE:
				return false
			}
		}
		return asks
	}
	return false
}

// scanA64 fills in the traits of an AArch64 function.
func (im *image) scanA64(f *function, t *target, isaUnit bool) {
	b := im.code(f)
	for at := uint64(0); at+4 <= uint64(len(b)); at += 4 {
		if im.isData(f.addr + at) {
			continue
		}
		w := word(b, at)
		f.insns++
		if w&0xfffff000 == 0xd5380000 {
			f.cpuid = true // mrs of an identification register
		}
		if f.pseudo && w != 0 && unallocated(w) {
			f.bad = true
		}
		feat := a64.Classify(w)
		if feat == 0 {
			continue
		}
		if a := t.above(uint64(feat), isaUnit); a != 0 {
			if f.feat == 0 {
				f.first = f.addr + at
			}
			f.feat |= a
		}
	}
	if f.tested = im.guarded(f); f.tested || f.bad {
		f.feat = 0
	}
}

// unallocated reports whether no architecture has defined an instruction in
// the region of w: words of text and of tables are there more often than not.
func unallocated(w uint32) bool {
	op := w >> 25 & 15
	return op == 1 || op == 3 || op == 0 && w>>31 == 0
}

// outlined tells a start that has the name of an outline atomic.
func outlined(name string) startFlags {
	if hasPrefix(name, "__aarch64_cas", "__aarch64_swp", "__aarch64_ld") {
		return outline
	}
	return 0
}

func hasPrefix(name string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// guardName reports whether the string at addr names a guard function.
func (im *image) guardName(addr uint64) bool {
	if im.peek == nil {
		return false
	}
	var b [24]byte
	if im.peek(b[:], addr) != nil {
		return false
	}
	name, _, ok := strings.Cut(string(b[:]), "\x00")
	return ok && name != "" && guardCall(name)
}
