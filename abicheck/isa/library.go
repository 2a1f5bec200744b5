package isa

import (
	"debug/elf"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
	"github.com/thox-ai/thoxbuild/internal/offheap"
)

// library is a linked file as an image, with its entry points.
type library struct {
	image
	f        *elffile.File    // nil for a Mach-O file
	dyn      []elffile.Symbol // what is exported or imported
	load     []root           // what the loader runs
	exported []root           // what other files can call
	taken    []taken          // functions whose address lies in data
	mem      offheap.Arena    // holds the code and the functions
	unread   []unread         // what mem has room for
	unlisted bool             // a Mach-O file without a list of its functions
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

// close gives code and functions back; the image must not be used after it.
func (l *library) close() {
	l.text, l.fns, l.slots = nil, nil, slots{}
	l.mem.Free()
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
	var err error
	if l.dyn, err = f.DynSymbols(); err != nil {
		return nil, err
	}
	if err := l.discover(); err != nil {
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

// segments finds what is executable: sections where the file has headers, else
// segments. Their bytes are there after readCode.
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
		r, err := l.f.Reader(s)
		if err != nil {
			return err
		}
		if err := l.addCode(segment{addr: s.Addr, name: s.Name, index: i}, r); err != nil {
			return err
		}
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
			r, err := l.f.ReaderAddr(p.Vaddr, p.Filesz)
			if err != nil {
				return err
			}
			if err := l.addCode(segment{addr: p.Vaddr, name: "segment", index: -1}, r); err != nil {
				return err
			}
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

// addCode adds a segment with room for the bytes that readCode reads from r.
func (l *library) addCode(s segment, r *io.SectionReader) (err error) {
	if s.bytes, err = offheap.Make[byte](&l.mem, int(r.Size())); err != nil {
		return fmt.Errorf("section %s: %w", s.name, err)
	}
	l.text, l.unread = append(l.text, s), append(l.unread, unread{s, r})
	return nil
}

// unread is a segment whose bytes are still in the file.
type unread struct {
	segment
	r io.Reader
}

// readCode reads the bytes of the segments.
func (l *library) readCode() error {
	for _, u := range l.unread {
		if _, err := io.ReadFull(u.r, u.bytes); err != nil {
			return fmt.Errorf("section %s: %w", u.name, err)
		}
	}
	l.unread = nil
	return nil
}

// discover finds functions: symbols, unwind ranges, and the edges that the
// linker made (PLT stubs are resolved on demand). The tables that tell are as
// large as the code, so that they are gone before it is read.
func (l *library) discover() error {
	l.symbol = l.symbolName
	var tables offheap.Arena
	defer tables.Free()
	starts, err := offheap.Make[start](&tables, len(l.dyn)+l.f.SymbolCount()+maxFrames(l.f))
	if err != nil {
		return err
	}
	starts = starts[:0]
	var marks []mark
	see := func(i int, s *elffile.Symbol, flags startFlags) {
		if s.Undefined() {
			return
		}
		seg := l.segmentAt(s.Value)
		switch code := s.Type == elf.STT_FUNC || s.Type == elf.STT_GNU_IFUNC || s.Type == elf.STT_NOTYPE && s.Bind != elf.STB_LOCAL; {
		case s.Type == elf.STT_OBJECT:
			if stateName(s.Name) {
				l.state = append(l.state, dataSym{strings.Clone(s.Name), s.Value, max(s.Size, 4)})
			}
		case code && seg >= 0:
			if s.Name == "" {
				i = -1
			}
			starts = append(starts, start{addr: s.Value, size: s.Size, seg: int32(seg), sym: int32(i), group: -1,
				bind: s.Bind, typ: s.Type, vis: s.Vis, flags: flags | outlined(s.Name)})
		}
		if s.Type == elf.STT_GNU_IFUNC {
			l.load = append(l.load, root{addr: s.Value, why: "IFUNC resolver of " + label(s.Name), ifunc: true})
		}
		if flags == 0 && seg >= 0 && l.machine != machineX86 {
			marks = appendMark(marks, s, s.Value)
		}
	}
	for i := range l.dyn {
		see(i, &l.dyn[i], dynamic)
	}
	// Nothing that runs needs .symtab: a stripped file is judged as well, and
	// so is one with a table that cannot be read.
	_ = l.f.EachSymbol(func(i int, s *elffile.Symbol) { see(i, s, 0) })
	err = frames(l.f, func(s span) {
		if seg := l.segmentAt(s.addr); seg >= 0 && !strings.HasPrefix(l.text[seg].name, ".plt") {
			starts = append(starts, start{addr: s.addr, size: s.size, seg: int32(seg), sym: -1, group: -1, typ: elf.STT_FUNC})
		}
	})
	if err != nil {
		return err
	}
	if err := l.readCode(); err != nil {
		return err
	}
	l.mark(marks)
	return l.cut(starts, &l.mem)
}

// symbolName is the name of a symbol of either table.
func (l *library) symbolName(i int32, dyn bool) string {
	if dyn {
		return l.dyn[i].Name
	}
	name, err := l.f.SymbolName(int(i))
	if err != nil {
		return "" // it was there when the table was read: the file has changed
	}
	return name
}

// pointers reads what the loader writes: GOT slots, initialisers, callbacks.
func (l *library) pointers() error {
	d, err := l.f.Dynamic()
	if err != nil {
		return err
	}
	n, err := l.f.DynRelocCount()
	if err != nil {
		return err
	}
	if err := l.slots.reserve(n, &l.mem); err != nil {
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
