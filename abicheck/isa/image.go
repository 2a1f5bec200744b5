package isa

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"slices"

	"github.com/thox-ai/thoxbuild/abicheck/isa/x86"
	"github.com/thox-ai/thoxbuild/internal/offheap"
)

// An image is code at addresses, with what is known about it.
type image struct {
	machine elf.Machine
	macho   bool
	text    []segment // executable bytes, sorted, disjoint
	data    []segment // other sections of an object; nil for a linked file
	fns     []function
	addrs   []uint64 // of fns: what a search looks at lies close together
	buckets buckets  // where in addrs a search begins
	slots   slots    // pointers that a loader or linker fills: GOT entries
	imports map[uint64]string
	// state holds data symbols by name, for the objects that hold CPU features.
	state  []dataSym
	guards []string // declared names whose value or result is a CPU test
	index  *index   // once it is made
	// symbol gives the name of a symbol that a function has by its number.
	symbol func(sym int32, dyn bool) string
	// live spans what code refers to that is more than a constant: data that may
	// change and slots. Empty, everything is.
	live span
	// writable tells whether an address is data that code may change.
	writable func(addr uint64) bool
	// branches are where branches of an AArch64 object go, by their address: an
	// instruction reaches 128 MB at most, and imports lie further away.
	branches map[uint64]uint64
	// peek copies data at an address; nil if there is none to read.
	peek func(b []byte, addr uint64) error
	// literals are the runs of data among code that mapping symbols mark.
	literals []span

	// done is closed when nobody waits for an answer any more.
	done <-chan struct{}

	named     uint64 // the function that namesOf belongs to
	namesOf   []uint64
	nameCache map[uint64][]uint64
}

// segment is a run of bytes at an address.
type segment struct {
	addr  uint64
	bytes []byte
	name  string
	index int // section index in an object
}

// slot is what a pointer in the image will hold: a place in it, or an import.
type slot struct {
	addr uint64
	name string
}

type dataSym struct {
	name       string
	addr, size uint64
}

// start is where a function may begin, as a symbol or an unwind range has it.
// It holds no pointers, as function does not: a large library has a million of
// the one and half a million of the other, outside the heap.
type start struct {
	addr, size uint64 // size is 0 where it is not known
	seg        int32
	sym        int32 // index in the symbol table that names it, or -1
	group      int32 // index of the COMDAT group in an object, or -1
	bind       elf.SymBind
	typ        elf.SymType
	vis        elf.SymVis
	flags      startFlags
}

type startFlags uint8

const (
	dynamic startFlags = 1 << iota // sym counts in the dynamic symbol table
	outline                        // has the name of an outline atomic
)

// function is a run of code that is entered at its start.
type function struct {
	start
	pseudo  bool // no symbol: a gap between functions
	bad     bool // holds bytes that are no instruction
	guard   bool // declared: its result is a CPU test
	trusted bool // declared: it tests the CPU before it calls
	traits
}

// traits are what one pass over the instructions finds.
type traits struct {
	feat  uint64 // above the baseline
	first uint64 // address of the first instruction with such a feature
	insns int32
	cpuid bool // executes cpuid or xgetbv
	sse   bool // has vector code of the baseline
	vex   bool
	// tested says that the code asks the processor for what it needs.
	tested bool
}

// end is the address behind the function.
func (f *function) end() uint64 { return f.addr + f.size }

// code returns the bytes of a function.
func (im *image) code(f *function) []byte {
	s := &im.text[f.seg]
	return s.bytes[f.addr-s.addr : f.end()-s.addr]
}

// at finds the function that holds addr, or -1.
func (im *image) at(addr uint64) int {
	if i := im.buckets.last(im.addrs, addr); i >= 0 && addr-im.addrs[i] < im.fns[i].size {
		return i
	}
	return -1
}

// segmentAt finds the executable segment that holds addr, or -1.
func (im *image) segmentAt(addr uint64) int {
	for i := range im.text {
		if s := &im.text[i]; addr >= s.addr && addr < s.addr+uint64(len(s.bytes)) {
			return i
		}
	}
	return -1
}

// resolve follows an address that code branches to through a PLT stub to what
// runs: a function of the image (fn >= 0) or an import.
func (im *image) resolve(addr uint64) (fn int, imported string) {
	if name, ok := im.imports[addr]; ok {
		return -1, name
	}
	if i := im.at(addr); i >= 0 && !im.fns[i].pseudo {
		return i, ""
	}
	if im.machine != machineX86 {
		if fn, name := im.stubA64(addr); fn >= 0 || name != "" {
			return fn, name
		}
		return im.at(addr), ""
	}
	if s := im.segmentAt(addr); s >= 0 {
		b := im.text[s].bytes[addr-im.text[s].addr:]
		if len(b) >= 6 && b[0] == 0xff && b[1] == 0x25 { // jmp *slot(%rip), as most stubs are
			return im.through(addr + 6 + uint64(int64(int32(binary.LittleEndian.Uint32(b[2:])))))
		}
		for at, n := addr, 0; n < 3; n++ {
			in, ok := x86.Decode(b)
			if !ok {
				break
			}
			if in.Flow == x86.FlowJmpInd {
				if to, rip := in.RIPTarget(at); rip {
					return im.through(to)
				}
				break
			}
			if in.Flow != x86.FlowNext {
				break
			}
			at += uint64(in.Len)
			b = b[in.Len:]
		}
	}
	return im.at(addr), ""
}

// through resolves a pointer in the image.
func (im *image) through(slotAddr uint64) (fn int, imported string) {
	s, ok := im.slots.at(slotAddr)
	if !ok {
		return -1, ""
	}
	if s.addr != 0 {
		return im.at(s.addr), ""
	}
	return -1, s.name
}

// cut makes functions from starts: each ends at its size or at the next start,
// and code that belongs to none becomes a pseudo-function. starts may hold
// several functions at one address; the first after sorting is kept. The
// functions lie in mem; nil is the heap.
func (im *image) cut(starts []start, mem *offheap.Arena) error {
	order := sortStarts(starts)
	places := 0
	for i := range order {
		if i == 0 || starts[order[i]].addr != starts[order[i-1]].addr || starts[order[i]].seg != starts[order[i-1]].seg {
			places++
		}
	}
	most := places
	if mem != nil { // room for a gap before each and at the end of each segment costs nothing there
		most += places + len(im.text)
	}
	out, err := offheap.Make[function](mem, most)
	if err != nil {
		return err
	}
	out = out[:0]
	for i, seg := 0, 0; seg < len(im.text); seg++ {
		s := &im.text[seg]
		segEnd := s.addr + uint64(len(s.bytes))
		pos := s.addr
		gap := func(to uint64) {
			if to > pos && !im.padding(s.bytes[pos-s.addr:to-s.addr]) {
				out = append(out, function{start: start{addr: pos, size: to - pos, seg: int32(seg), sym: -1, group: -1}, pseudo: true})
			}
		}
		for i < len(order) && int(starts[order[i]].seg) < seg {
			i++
		}
		for i < len(order) && int(starts[order[i]].seg) == seg {
			best := &starts[order[i]]
			for i++; i < len(order) && starts[order[i]].seg == best.seg && starts[order[i]].addr == best.addr; i++ {
				if s := &starts[order[i]]; rank(s) > rank(best) {
					best = s
				}
			}
			f := function{start: *best}
			next := segEnd
			if i < len(order) && starts[order[i]].seg == f.seg {
				next = starts[order[i]].addr
			}
			if f.size == 0 || f.size > next-f.addr {
				f.size = next - f.addr
			}
			if f.size == 0 {
				continue
			}
			gap(f.addr)
			out = append(out, f)
			pos = f.end()
		}
		gap(segEnd)
	}
	byAddr := func(a, b *function) int { return cmp.Compare(a.addr, b.addr) }
	for i := 1; i < len(out); i++ {
		if byAddr(&out[i-1], &out[i]) > 0 { // the sections of an object are in no order
			slices.SortFunc(out, func(a, b function) int { return byAddr(&a, &b) })
			break
		}
	}
	im.fns, im.addrs = out, make([]uint64, len(out))
	for i := range out {
		im.addrs[i] = out[i].addr
	}
	im.buckets = newBuckets(im.addrs)
	return nil
}

// name is the symbol of a function, empty without one.
func (im *image) name(f *function) string {
	if f.sym < 0 {
		return ""
	}
	return im.symbol(f.sym, f.flags&dynamic != 0)
}

// rank prefers, of several symbols at one address, the one that says most.
func rank(f *start) int {
	r := 0
	if f.typ == elf.STT_FUNC || f.typ == elf.STT_GNU_IFUNC {
		r += 4
	}
	if f.bind != elf.STB_LOCAL {
		r += 2
	}
	if f.sym >= 0 {
		r++
	}
	return r
}

// padding reports whether b is only what assemblers put between functions.
func (im *image) padding(b []byte) bool {
	if im.machine != elf.EM_X86_64 {
		for len(b) >= 4 {
			if w := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24; w != 0 && w != 0xd503201f {
				return false
			}
			b = b[4:]
		}
		return true
	}
	for len(b) > 0 {
		if b[0] == 0 || b[0] == 0xcc || b[0] == 0x90 {
			b = b[1:]
			continue
		}
		in, ok := x86.Decode(b)
		if !ok || !(in.Map == 1 && (in.Op == 0x1f || in.Op == 0x1e) || in.Map == 0 && in.Op == 0x90) {
			return false
		}
		b = b[in.Len:]
	}
	return true
}

// stopped reports whether the caller has given up.
func (im *image) stopped() bool {
	select {
	case <-im.done:
		return true
	default:
		return false
	}
}
