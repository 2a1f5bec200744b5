package a64

// Flow says what an instruction does to control.
type Flow uint8

// The kinds of control transfer.
const (
	Next        Flow = iota // falls through
	Cond                    // conditional branch to Imm from here
	Jump                    // unconditional branch to Imm from here
	JumpReg                 // branch to register Rn
	Call                    // branch with link to Imm from here
	CallReg                 // branch with link to register Rn
	Return                  // ret, eret
	Stop                    // never continues: udf, brk, hlt
	Environment             // svc: the kernel runs, and x0 holds its answer
)

// Op names the instructions whose value a walk over dispatch code follows.
type Op uint8

// The operations; the rest is Other.
const (
	Other   Op = iota
	ADR        // Rd = pc + Imm
	ADRP       // Rd = page of pc + Imm
	AddImm     // Rd = Rn + Imm, subtraction with Imm negated
	Move       // Rd = Rm
	MoveImm    // Rd = Imm
	Literal    // Rt = what lies at pc + Imm
	Load       // Rt (and Rt2) from memory
	Store      // Rt (and Rt2) to memory
	ReadID     // Rd = an identification register, which the kernel answers from
	Zero       // Rd = 0, by eor or sub of a register with itself
)

// NoReg stands for an absent register, a vector register, or the zero register.
const NoReg = 0xff

// SP is the number of the stack pointer in register sets and operands.
const SP = 31

// Wback tells how a load or store changes its base register.
type Wback uint8

// The addressing modes with a write to the base.
const (
	NoWback   Wback = iota
	PreIndex        // base += Imm, then access
	PostIndex       // access, then base += Imm
)

// An Inst is one decoded instruction: what a walk over dispatch code has to
// know. Sets of registers are bits by number; in those of general registers
// bit 31 is the stack pointer, and the zero register is left out. An
// instruction may be said to read more vector registers than it does.
type Inst struct {
	Imm         int64  // see Op and Flow; the displacement of a load or store
	Read, Write uint32 // general registers, base and index included
	// VRead and VWrite are vector registers.
	VRead, VWrite uint32
	Op            Op
	Flow          Flow
	Rd, Rn, Rm    uint8
	Rt, Rt2       uint8 // general registers that a load or store moves
	Vt, Vt2       uint8 // the same for vector registers
	Base, Index   uint8 // of a memory operand; NoReg without one
	Size          uint8 // bytes that each of Rt and Rt2 moves
	Wback         Wback
	MemRead       bool
	MemWrite      bool
	FlagRead      bool
	FlagWrite     bool
	Tested        uint32 // registers that a conditional branch looks at, none for one on flags
}

func bit(r uint8) uint32 {
	if r == NoReg {
		return 0
	}
	return 1 << (r & 31)
}

// zr and sp read a register field: 31 is the zero register or the stack pointer.
func zr(n uint32) uint8 {
	if n &= 31; n == 31 {
		return NoReg
	}
	return uint8(n)
}

func sp(n uint32) uint8 { return uint8(n & 31) }

func signed(w uint32, hi, lo int) int64 {
	return int64(int32(w<<(31-hi)) >> (31 - hi + lo)) // hi..lo as a signed number
}
