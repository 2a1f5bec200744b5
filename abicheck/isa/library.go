package isa

import (
	"debug/elf"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
)

// library is a linked file as an image, with its entry points.
type library struct {
	image
	f        *elffile.File    // nil for a Mach-O file
	dyn      []elffile.Symbol // what is exported or imported
	load     []root           // what the loader runs
	exported []root           // what other files can call
	taken    []taken          // functions whose address lies in data
	free     []func()
	unlisted bool // a Mach-O file without a list of its functions
}

// root is a place where control enters from outside.
type root struct {
	addr  uint64
	why   string // ".init_array[2]", "IFUNC resolver"
	name  string // an exported symbol, when why is empty
	place uint64 // the data that holds the address, when both are empty
	ifunc bool   // a resolver
}

// taken is the address of a function, and the data that holds it.
type taken struct{ addr, place uint64 }

// text says how control gets here. It is made when it is needed: a large
// library has hundreds of thousands of roots.
func (r *root) text() string {
	switch {
	case r.why != "":
		return r.why
	case r.name != "":
		return "exported as " + label(r.name)
	}
	return "its address is in data at " + hex(r.place)
}

// largeSection is from how many bytes on a section is kept off the heap.
const largeSection = 16 << 20

// close gives the code back; the image must not be used after it.
func (l *library) close() {
	for _, free := range l.free {
		free()
	}
	l.free, l.text = nil, nil
}

// openLibrary reads the code and the entry points of a linked file.
func openLibrary(f *elffile.File) (*library, error) {
	l := &library{f: f}
	l.machine = f.Machine
	l.imports = map[uint64]string{}
	l.peek = f.ReadAddr
	done := false
	defer func() {
		if !done {
			l.close()
		}
	}()
	if err := l.segments(); err != nil {
		return nil, err
	}
	var syms []elffile.Symbol
	var err error
	if syms, err = f.Symbols(); err != nil {
		syms = nil // nothing that runs needs .symtab: a stripped file is judged as well
	}
	if l.dyn, err = f.DynSymbols(); err != nil {
		return nil, err
	}
	if err := l.discover(syms); err != nil {
		return nil, err
	}
	if err := l.pointers(); err != nil {
		return nil, err
	}
	l.spanLive()
	exported := func(s *elffile.Symbol) bool {
		return !s.Undefined() && s.Bind != elf.STB_LOCAL && s.Type == elf.STT_FUNC
	}
	n := 0
	for i := range l.dyn {
		if exported(&l.dyn[i]) {
			n++
		}
	}
	l.exported = make([]root, 0, n)
	for i := range l.dyn {
		s := &l.dyn[i]
		if !exported(s) {
			continue
		}
		l.exported = append(l.exported, root{addr: s.Value, name: s.Name})
	}
	done = true
	return l, nil
}

// segments reads what is executable: sections where the file has headers,
// else segments.
func (l *library) segments() error {
	var rw []span
	for i := range l.f.Progs {
		p := &l.f.Progs[i]
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_W != 0 {
			rw = append(rw, span{p.Vaddr, p.Memsz})
		}
	}
	var ro []span // RELRO is written before any code runs, but for lazy GOT slots
	for i := range l.f.Sections {
		switch s := &l.f.Sections[i]; s.Name {
		case ".got", ".got.plt", ".data.rel.ro", ".dynamic", ".init_array", ".fini_array":
			ro = append(ro, span{s.Addr, s.Size})
		}
	}
	l.writable = func(a uint64) bool {
		in := func(s span) bool { return a-s.addr < s.size }
		return slices.ContainsFunc(rw, in) && !slices.ContainsFunc(ro, in)
	}
	left := newBudget(l.f.Size())
	for i := range l.f.Sections {
		s := &l.f.Sections[i]
		if s.Flags&(elf.SHF_ALLOC|elf.SHF_EXECINSTR) != elf.SHF_ALLOC|elf.SHF_EXECINSTR || s.Type == elf.SHT_NOBITS || s.Size == 0 {
			continue
		}
		if err := left.take(s.Size, s.Name); err != nil {
			return err
		}
		b, err := l.read(s)
		if err != nil {
			return err
		}
		l.text = append(l.text, segment{addr: s.Addr, bytes: b, name: s.Name, index: i})
	}
	if len(l.text) == 0 {
		for i := range l.f.Progs {
			p := &l.f.Progs[i]
			if p.Type != elf.PT_LOAD || p.Flags&elf.PF_X == 0 || p.Filesz == 0 || p.Filesz > uint64(l.f.Size()) {
				continue
			}
			if err := left.take(p.Filesz, "segment"); err != nil {
				return err
			}
			b := make([]byte, p.Filesz)
			if err := l.f.ReadAddr(b, p.Vaddr); err != nil {
				return err
			}
			l.text = append(l.text, segment{addr: p.Vaddr, bytes: b, name: "segment", index: -1})
		}
	}
	slices.SortFunc(l.text, func(a, b segment) int {
		if a.addr < b.addr {
			return -1
		}
		return 1
	})
	return nil
}

// read reads a section in one piece: code is most of a large library, and a
// buffer that grows would need its size twice.
func (l *library) read(s *elffile.Section) ([]byte, error) {
	r, err := l.f.Reader(s)
	if err != nil {
		return nil, err
	}
	if s.Size > uint64(l.f.Size()) {
		return nil, fmt.Errorf("section %s: %d bytes in a file of %d", s.Name, s.Size, l.f.Size())
	}
	return l.readSection(s.Name, s.Size, r)
}

// readSection reads size bytes, those of a large section into memory that the
// collector does not count.
func (l *library) readSection(name string, size uint64, r io.Reader) (b []byte, err error) {
	if size >= largeSection {
		var free func()
		if b, free, err = offHeap(int(size)); err != nil {
			return nil, fmt.Errorf("section %s: %w", name, err)
		}
		l.free = append(l.free, free)
	} else {
		b = make([]byte, size)
	}
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("section %s: %w", name, err)
	}
	return b, nil
}

// discover finds functions: symbols, unwind ranges, and the edges that the
// linker made (PLT stubs are resolved on demand).
func (l *library) discover(syms []elffile.Symbol) error {
	fr, err := frames(l.f)
	if err != nil {
		return err
	}
	n := len(fr)
	for _, syms := range [][]elffile.Symbol{l.dyn, syms} {
		for i := range syms {
			if s := &syms[i]; !s.Undefined() && (s.Type == elf.STT_FUNC || s.Type == elf.STT_GNU_IFUNC) {
				n++
			}
		}
	}
	starts := make([]function, 0, n)
	add := func(i int32, s *elffile.Symbol, dyn bool) {
		if s.Undefined() || s.Type != elf.STT_FUNC && s.Type != elf.STT_GNU_IFUNC && !(s.Type == elf.STT_NOTYPE && s.Bind != elf.STB_LOCAL) {
			return
		}
		seg := l.segmentAt(s.Value)
		if seg < 0 {
			return
		}
		starts = append(starts, function{addr: s.Value, size: s.Size, name: s.Name, seg: int32(seg), sym: i, group: -1,
			bind: s.Bind, typ: s.Type, vis: s.Vis, dyn: dyn})
	}
	for _, t := range []struct {
		syms []elffile.Symbol
		dyn  bool
	}{{l.dyn, true}, {syms, false}} {
		for i := range t.syms {
			s := &t.syms[i]
			add(int32(i), s, t.dyn)
			if s.Type == elf.STT_GNU_IFUNC && !s.Undefined() {
				l.load = append(l.load, root{addr: s.Value, why: "IFUNC resolver of " + label(s.Name), ifunc: true})
			}
			if !s.Undefined() && s.Type == elf.STT_OBJECT && stateName(s.Name) {
				l.state = append(l.state, dataSym{s.Name, s.Value, max(s.Size, 4)})
			}
		}
	}
	for _, s := range fr {
		if seg := l.segmentAt(s.addr); seg >= 0 && !strings.HasPrefix(l.text[seg].name, ".plt") {
			starts = append(starts, function{addr: s.addr, size: s.size, seg: int32(seg), sym: -1, group: -1, typ: elf.STT_FUNC})
		}
	}
	l.cut(starts)
	l.mark(syms, func(s *elffile.Symbol) (uint64, bool) { return s.Value, !s.Undefined() && l.segmentAt(s.Value) >= 0 })
	return nil
}

// pointers reads what the loader writes: GOT slots, initialisers, callbacks.
func (l *library) pointers() error {
	d, err := l.f.Dynamic()
	if err != nil {
		return err
	}
	arch := l.machine == machineX86
	err = l.f.DynRelocs(func(r elffile.Reloc) {
		var s *elffile.Symbol
		if int(r.Symbol) < len(l.dyn) && r.Symbol != 0 {
			s = &l.dyn[r.Symbol]
		}
		switch t := r.Type; {
		case arch && (t == uint32(elf.R_X86_64_GLOB_DAT) || t == uint32(elf.R_X86_64_JMP_SLOT) || t == uint32(elf.R_X86_64_64)),
			!arch && (t == uint32(elf.R_AARCH64_GLOB_DAT) || t == uint32(elf.R_AARCH64_JUMP_SLOT) || t == uint32(elf.R_AARCH64_ABS64)):
			if s == nil {
				return
			}
			if s.Undefined() {
				l.slots.set(r.Offset, slot{name: s.Name})
			} else {
				l.point(r.Offset, s.Value+uint64(r.Addend))
			}
		case arch && t == uint32(elf.R_X86_64_RELATIVE), !arch && t == uint32(elf.R_AARCH64_RELATIVE):
			l.point(r.Offset, uint64(r.Addend))
		case arch && t == uint32(elf.R_X86_64_IRELATIVE), !arch && t == uint32(elf.R_AARCH64_IRELATIVE):
			l.load = append(l.load, root{addr: uint64(r.Addend), why: "IFUNC resolver", ifunc: true})
		}
	})
	if err != nil {
		return err
	}
	relr, err := l.f.Relr()
	if err != nil {
		return err
	}
	for _, a := range relr {
		if v, ok := l.word(a); ok {
			l.point(a, v)
		}
	}
	if d == nil {
		return nil
	}
	for _, t := range []struct {
		tag elf.DynTag
		why string
	}{{elf.DT_INIT, "DT_INIT"}, {elf.DT_FINI, "DT_FINI"}} {
		if v, ok := d.Value(t.tag); ok && v != 0 {
			l.load = append(l.load, root{addr: v, why: t.why})
		}
	}
	for _, t := range []struct {
		tag, size elf.DynTag
		why       string
	}{{elf.DT_PREINIT_ARRAY, elf.DT_PREINIT_ARRAYSZ, ".preinit_array"}, {elf.DT_INIT_ARRAY, elf.DT_INIT_ARRAYSZ, ".init_array"}, {elf.DT_FINI_ARRAY, elf.DT_FINI_ARRAYSZ, ".fini_array"}} {
		at, ok := d.Value(t.tag)
		n, ok2 := d.Value(t.size)
		if !ok || !ok2 || n > uint64(l.f.Size()) {
			continue
		}
		for i := range n / 8 {
			s, _ := l.slots.at(at + 8*i)
			to := s.addr
			if to == 0 {
				to, _ = l.word(at + 8*i)
			}
			if to != 0 && to != ^uint64(0) {
				l.load = append(l.load, root{addr: to, why: t.why + "[" + itoa(int(i)) + "]"})
			}
		}
	}
	return nil
}

// spanLive finds what live is.
func (l *library) spanLive() {
	lo, hi, ok := l.slots.bounds()
	if !ok {
		return
	}
	for i := range l.f.Progs {
		if p := &l.f.Progs[i]; p.Type == elf.PT_LOAD && p.Flags&elf.PF_W != 0 {
			lo, hi = min(lo, p.Vaddr), max(hi, p.Vaddr+p.Memsz)
		}
	}
	for _, s := range l.state {
		lo, hi = min(lo, s.addr), max(hi, s.addr+s.size)
	}
	if size := hi - lo + 1; hi >= lo && size != 0 {
		l.live = span{lo, size}
	}
}

// point records that the loader makes the word at place point at to.
func (l *library) point(place, to uint64) {
	l.slots.set(place, slot{addr: to})
	if l.segmentAt(to) < 0 {
		return
	}
	if i := l.at(to); i >= 0 && l.fns[i].addr == to {
		l.taken = append(l.taken, taken{to, place})
	}
}

func (l *library) word(addr uint64) (uint64, bool) {
	var b [8]byte
	if err := l.f.ReadAddr(b[:], addr); err != nil {
		return 0, false
	}
	var v uint64
	for i := range b {
		v |= uint64(b[i]) << (8 * i)
	}
	return v, true
}
