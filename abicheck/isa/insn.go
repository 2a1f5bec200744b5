package isa

import (
	"github.com/thox-ai/thoxbuild/abicheck/isa/a64"
	"github.com/thox-ai/thoxbuild/abicheck/isa/x86"
)

// An insn is what a walk sees of one instruction, whatever the machine.
type insn struct {
	size uint64   // bytes
	flow x86.Flow // what it does to control
	feat uint64   // what it needs, whether or not the baseline has it
	to   uint64   // where a direct branch goes
	via  uint64   // the pointer in the image that an indirect branch goes through, 0 if unknown
	// tested are the registers that a conditional branch looks at itself; one
	// without any looks at the flags. For an indirect call it is the register
	// that holds the address.
	tested uint32
	// ref is the address in the image that an AArch64 instruction makes,
	// accesses or branches to; 0 if unknown.
	ref uint64

	x86 x86.Inst
	a64 a64.Inst
}

// next decodes the instruction of f at pc; ok is false where there is none.
func (im *image) next(f *function, pc uint64, in *insn) (ok bool) {
	if im.machine != machineX86 {
		return im.nextA64(f, pc, in)
	}
	return im.nextX86(f, pc, in)
}

func (im *image) nextX86(f *function, pc uint64, in *insn) bool {
	d := &in.x86
	if !d.Decode(im.code(f)[pc-f.addr:]) {
		return false
	}
	in.size, in.flow, in.feat = uint64(d.Len), d.Flow, uint64(d.Feat)
	in.to, in.via, in.tested = 0, 0, 0
	switch d.Flow {
	case x86.FlowJcc:
		in.to = d.Target(pc)
		if d.Map == 0 && d.Op == 0xe3 {
			in.tested = 1 << 1 // jrcxz
		}
	case x86.FlowJmp, x86.FlowCall:
		in.to = d.Target(pc)
	case x86.FlowJmpInd, x86.FlowCallInd:
		in.via, _ = d.RIPTarget(pc)
	}
	return true
}

// unit is the step from bytes that are no instruction to what may be one.
func (im *image) unit() uint64 {
	if im.machine == machineX86 {
		return 1
	}
	return 4
}

// tests reports whether the conditional branch in depends on a CPU test.
// xbegin, which needs a feature, never does.
func (in *insn) tests(st *state) bool {
	if in.tested != 0 {
		return st.regs&in.tested != 0
	}
	return st.flags && in.feat == 0
}

// decided tells which way a conditional branch goes where its flags are known.
func (in *insn) decided(st *state) (taken, ok bool) {
	d := &in.x86
	if in.tested != 0 || d.Flow != x86.FlowJcc || !(d.Map == 0 && d.Op>>4 == 7 || d.Map == 1 && d.Op>>4 == 8) {
		return false, false
	}
	return st.decide(d.Op & 15)
}

// A convention is how functions of a machine call each other.
type convention struct {
	args    []uint8 // argument registers, at most 8
	result  uint32  // registers that a result comes back in
	scratch uint32  // registers that a call overwrites
	frame   uint32  // stack and frame pointer
	vectors uint32  // vector registers that survive a call
	large   uint8   // the register that says where a large result goes; 0 if it is an argument
}

// indirectResult is the number, among the arguments, of the pointer to where a
// large result goes, on a machine that passes it apart from them.
const indirectResult = 8

// indirect is the register of the indirect result.
func (c *convention) indirect() (r uint8, ok bool) { return c.large, c.large != 0 }

// register is the register of an argument by its number.
func (c *convention) register(arg uint8) (r uint8, ok bool) {
	if arg == indirectResult {
		return c.indirect()
	}
	if int(arg) >= len(c.args) {
		return 0, false
	}
	return c.args[arg], true
}

var conventionX86 = convention{
	args:    []uint8{7, 6, 2, 1, 8, 9}, // rdi, rsi, rdx, rcx, r8, r9
	result:  1 << 0,
	scratch: 1<<0 | 1<<1 | 1<<2 | 1<<6 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 0xffff0000,
	frame:   1<<4 | 1<<5,
}
