package x86

// MaxLen is the architectural limit of an instruction in bytes.
const MaxLen = 15

// Flow says what an instruction does to control.
type Flow uint8

// The kinds of control transfer.
const (
	FlowNext    Flow = iota // falls through
	FlowJcc                 // conditional direct branch: Imm is the displacement (also loop, jrcxz, xbegin)
	FlowJmp                 // unconditional direct branch
	FlowJmpInd              // jump through a register or memory
	FlowCall                // direct call
	FlowCallInd             // call through a register or memory
	FlowRet                 // returns (near, far or from an interrupt)
	FlowStop                // never continues: ud0, ud1, ud2, int3, hlt
)

// Enc is the form an instruction is written in.
type Enc uint8

// The encodings of 64-bit mode.
const (
	EncLegacy Enc = iota // with or without REX
	EncREX2
	EncVEX
	EncEVEX
	EncXOP
)

// Mandatory prefixes, as Inst.PP holds them. The values are those of the pp
// field of VEX.
const (
	PPNone = 0
	PP66   = 1
	PPF3   = 2
	PPF2   = 3
)

// Flag holds facts that are one bit each.
type Flag uint16

// The bits of Inst.Flags.
const (
	HasModRM   Flag = 1 << iota // ModRM, Reg and RM are valid
	IsMem                       // the ModRM operand is memory: Base, Index, Scale, Disp describe it
	IsRIP                       // the memory operand is relative to the next instruction
	OpSize16                    // a 66 prefix was seen
	AddrSize32                  // a 67 prefix was seen
	Locked                      // a lock prefix was seen
	RepNE                       // an F2 prefix was seen
	Rep                         // an F3 prefix was seen
	SegFS                       // the address is in the FS segment
	SegGS                       // the address is in the GS segment
	WideW                       // the W bit of REX, REX2, VEX, EVEX or XOP
	NoFlags                     // APX NF: the flags are left alone
	NewData                     // APX ND: V names the destination
	HasREX                      // REX or REX2: byte registers 4..7 are spl, bpl, sil, dil
)

// NoReg stands for an absent base or index register.
const NoReg = 0xff

// An Inst is one decoded instruction.
type Inst struct {
	Feat Feat  // what the encoding needs beyond x86-64
	Imm  int64 // immediate or branch displacement, sign-extended; the last one where there are two
	Disp int32 // memory displacement, not scaled for EVEX

	Len     uint8 // 1..15
	DispOff uint8 // offset of the displacement in the instruction; 0 if none
	DispLen uint8 // 0, 1 or 4
	ImmOff  uint8 // offset of the immediate or branch displacement; 0 if none
	ImmLen  uint8 // 0, 1, 2, 3 (enter), 4 or 8

	Enc   Enc
	Map   uint8 // opcode map: 0 one-byte, 1 0F, 2 0F38, 3 0F3A, 4..7 EVEX and VEX, 8..10 XOP, 15 3DNow!
	Op    byte
	PP    uint8
	Flow  Flow
	ModRM byte
	Reg   uint8 // ModRM.reg with its extension bits (a general register keeps 5 bits)
	RM    uint8 // ModRM.rm with its extension bits, for a register operand
	Base  uint8 // base register number or NoReg
	Index uint8 // index register number or NoReg
	Scale uint8 // log2 of the index scale
	V     uint8 // vvvv of VEX, EVEX and XOP
	L     uint8 // vector length: 0 = 128 bits or scalar, 1 = 256, 2 = 512
	Flags Flag
}

// Mem reports whether the ModRM operand is memory.
func (in *Inst) Mem() bool { return in.Flags&IsMem != 0 }

// Target returns the address a direct branch at addr goes to.
func (in *Inst) Target(addr uint64) uint64 { return addr + uint64(in.Len) + uint64(in.Imm) }

// RIPTarget returns the address that a RIP-relative operand of an instruction
// at addr names; ok is false if there is no such operand.
func (in *Inst) RIPTarget(addr uint64) (target uint64, ok bool) {
	if in.Flags&IsRIP == 0 {
		return 0, false
	}
	return addr + uint64(in.Len) + uint64(int64(in.Disp)), true
}
