package isa

import "math"

// A valueKind says what a value is.
type valueKind uint8

const (
	unknownValue valueKind = iota
	constant               // the low width bytes of n
	address                // n in the image
	argument               // n behind the pointer that the caller gave in argument arg
	stackAddress           // n behind the stack pointer at entry
)

// A value is what a walk knows about a register or a stack slot besides where
// it comes from. It lets a store through a pointer be attributed to the data
// or to the caller's variable that it changes, and decides branches on flags
// that a compiler put into registers first.
type value struct {
	kind  valueKind
	arg   uint8
	width uint8 // of a constant, in bytes
	n     int64
}

// somewhere stands for an unknown offset behind a pointer.
const somewhere = 1 << 40

// plus moves a pointer by a constant.
func (v value) plus(d int64) value {
	switch {
	case v.kind == unknownValue || v.kind == constant:
		return value{}
	case v.n != somewhere:
		v.n += d
	}
	return v
}

// anywhere gives up the offset of a pointer. A pointer that a loop advances
// would otherwise make a new state each time round.
func (v value) anywhere() value {
	switch v.kind {
	case argument:
		v.n = somewhere
		return v
	default:
		return value{}
	}
}

// number gives v a small name, so that states stay comparable and small; 0 is
// the unknown value and what no name is left for.
func (x *explorer) number(v value) uint8 {
	if v.kind == unknownValue {
		return 0
	}
	if id, ok := x.valueID[v]; ok {
		return id
	}
	if len(x.values) >= 255 {
		return 0
	}
	if x.valueID == nil {
		x.valueID = map[value]uint8{}
		x.values = append(x.values, value{})
	}
	id := uint8(len(x.values))
	x.values = append(x.values, v)
	x.valueID[v] = id
	return id
}

// reg is what register r holds.
func (x *explorer) reg(st *state, r uint8) value {
	if id := st.known[r&31]; id != 0 {
		return x.values[id]
	}
	return value{}
}

func (x *explorer) setReg(st *state, r uint8, v value) { st.known[r&31] = x.number(v) }

// forget drops what is known of a set of registers.
func (st *state) forget(regs uint32) {
	for r := uint8(0); regs != 0; r, regs = r+1, regs>>1 {
		if regs&1 != 0 {
			st.known[r] = 0
		}
	}
}

// An outcome is a place behind a pointer argument where a function stores what
// depends on a CPU test.
type outcome struct {
	arg uint8
	off int64
}

// maxOutcomes bounds what one summary keeps of them.
const maxOutcomes = 32

func (s *summary) stores(arg uint8, off int64) {
	o := outcome{arg, off}
	for _, old := range s.outs {
		if old == o || old.arg == arg && old.off == somewhere {
			return
		}
	}
	if len(s.outs) < maxOutcomes {
		s.outs = append(s.outs, o)
	}
}

func (s *summary) stored(arg uint8, off int64) bool {
	for _, o := range s.outs {
		if o.arg == arg && (o.off == off || o.off == somewhere || off == somewhere) {
			return true
		}
	}
	return false
}

// pointee is how many bytes behind a pointer are taken for one object.
const pointee = 64

// tainted reports whether a pointer leads to the outcome of a CPU test.
func (x *explorer) tainted(v value, st *state) bool {
	switch v.kind {
	case address:
		return x.w.d.has(uint64(v.n))
	case stackAddress:
		for n, off := range x.offsets {
			if d := int64(off) - v.n; st.slots>>n&1 != 0 && (d >= 0 && d < pointee || v.n == somewhere) {
				return true
			}
		}
	}
	return false
}

// deposit notes that the outcome of a CPU test is stored at v.
func (x *explorer) deposit(v value, size uint64, st *state, s *summary) {
	switch v.kind {
	case address:
		if x.w.store != nil {
			x.w.store(uint64(v.n), size)
		}
	case argument:
		s.stores(v.arg, v.n)
	case stackAddress:
		if v.n == somewhere {
			return
		}
		if bit, ok := x.slotBit(int32(v.n)); ok {
			st.slots |= bit
		}
	}
}

// context says which arguments of a call carry the outcome of a CPU test, in
// themselves or behind a pointer to a variable of the caller.
func (x *explorer) context(st *state) (ctx uint8) {
	for i, r := range x.w.abi.args {
		if st.regs>>r&1 != 0 || x.tainted(x.reg(st, r), st) {
			ctx |= 1 << i
		}
	}
	return ctx
}

// receive carries what a callee stored behind its arguments into the caller.
func (x *explorer) receive(callee *summary, st *state, s *summary) {
	for _, o := range callee.outs {
		r, ok := x.w.abi.register(o.arg)
		if !ok {
			continue
		}
		v := x.reg(st, r)
		if v.kind == unknownValue || v.kind == constant {
			continue
		}
		size := uint64(8)
		if o.off == somewhere {
			if v.kind == argument {
				v = v.anywhere()
			}
			size = pointee
		} else {
			v = v.plus(o.off)
		}
		x.deposit(v, size, st, s)
	}
}

// take notes that the address of a variable of this function leaves for where
// stores to it are not seen. What lies above it may be one object with it.
func (x *explorer) take(v value) {
	if v.kind == stackAddress && v.n != somewhere {
		x.escaped = min(x.escaped, int32(v.n))
	}
}

// overwritten forgets the variables that somebody else may have changed.
func (x *explorer) overwritten(st *state) {
	if x.escaped == never {
		return
	}
	for n, off := range x.offsets {
		if off >= x.escaped {
			st.slotKnown[n] = 0
		}
	}
}

// never is the lowest escaped address where none has escaped.
const never = math.MaxInt32
