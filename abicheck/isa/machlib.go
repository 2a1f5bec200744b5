package isa

import (
	"cmp"
	"context"
	"debug/elf"
	"debug/macho"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
	"github.com/thox-ai/thoxbuild/abicheck/isa/a64"
	"github.com/thox-ai/thoxbuild/abicheck/isa/x86"
	"github.com/thox-ai/thoxbuild/abicheck/machofile"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
	"github.com/thox-ai/thoxbuild/internal/offheap"
)

// machBaseline is the oldest processor that a Mach-O file has to run on. What
// macOS itself needs is more than the oldest processor of the architecture: a
// Mac with Apple silicon is an M1 at least, and an Intel Mac that runs a macOS
// of today has SSE4.2, as Rosetta has. A slice x86_64h is for Haswell alone,
// and the loader takes it only there.
func machBaseline(f *machofile.File, asked string) string {
	switch {
	case f.CPU == macho.CpuArm64 && asked != "armv8-a":
		return "apple-m1"
	case f.CPU == macho.CpuAmd64 && f.SubCPU&0xff == 8:
		return "x86-64-v3"
	case f.CPU == macho.CpuAmd64 && !strings.HasPrefix(asked, "x86-64"):
		return "x86-64-v2"
	}
	return asked
}

func machMachine(f *machofile.File) elf.Machine {
	switch f.CPU {
	case macho.CpuAmd64:
		return elf.EM_X86_64
	case macho.CpuArm64:
		return elf.EM_AARCH64
	}
	return elf.EM_NONE
}

func checkMachO(ctx context.Context, s *rule.Subject, o *rule.Options) ([]rule.Finding, error) {
	f := s.MachO
	t, ok, err := targetOf(s, o.Strict)
	if err != nil || !ok || f.Order != binary.LittleEndian {
		return nil, err
	}
	l, err := openMachO(f)
	if err != nil {
		return nil, err
	}
	defer l.close()
	return judge(ctx, s, o, t, l)
}

// openMachO reads the code and the entry points of a linked Mach-O file.
func openMachO(f *machofile.File) (*library, error) {
	l := &library{}
	l.machine, l.macho = machMachine(f), true
	l.imports = map[uint64]string{}
	done := false
	defer func() {
		if !done {
			l.close()
		}
	}()
	if err := l.machSections(f); err != nil {
		return nil, err
	}
	syms, err := f.Symbols()
	if err != nil {
		return nil, err
	}
	pointers, err := f.Pointers()
	if err != nil {
		return nil, err
	}
	for _, p := range pointers {
		l.slots.set(p.Place, slot{addr: p.To, name: strings.TrimPrefix(p.Name, "_")})
	}
	if err := l.machInits(f); err != nil {
		return nil, err
	}
	if err := l.machFunctions(f, syms); err != nil {
		return nil, err
	}
	for _, p := range pointers {
		if p.Name == "" {
			l.point(p.Place, p.To)
		}
	}
	if err := l.machWords(f); err != nil {
		return nil, err
	}
	for i := range l.dyn {
		if s := &l.dyn[i]; s.Type == elf.STT_FUNC {
			l.exported = append(l.exported, root{addr: s.Value, name: s.Name})
		}
	}
	done = true
	return l, nil
}

// machWrite is the bit of a segment's protection for writing.
const machWrite = 2

// machSections reads what is executable, and notes what code may write to.
func (l *library) machSections(f *machofile.File) error {
	var rw []span
	left := newBudget(f.Size())
	for i := range f.Segments {
		g := &f.Segments[i]
		for j := range g.Sections {
			s := &g.Sections[j]
			switch {
			case s.Code() && s.Size > 0:
				if err := left.take(s.Size, s.Name); err != nil {
					return err
				}
				b, err := l.machRead(f, s)
				if err != nil {
					return err
				}
				l.text = append(l.text, segment{addr: s.Addr, bytes: b, name: s.Name, index: -1})
			case g.InitProt&machWrite == 0, g.Name == "__DATA_CONST", g.Name == "__AUTH_CONST":
			case s.Type() == machofile.LazyPointers, s.Type() == machofile.NonLazyPointers, s.Type() == machofile.InitPointers:
			default:
				rw = append(rw, span{s.Addr, s.Size})
			}
		}
	}
	l.writable = func(a uint64) bool {
		return slices.ContainsFunc(rw, func(s span) bool { return a-s.addr < s.size })
	}
	slices.SortFunc(l.text, func(a, b segment) int {
		if a.addr < b.addr {
			return -1
		}
		return 1
	})
	return nil
}

func (l *library) machRead(f *machofile.File, s *machofile.Section) ([]byte, error) {
	r, err := f.Reader(s)
	if err != nil {
		return nil, err
	}
	b, err := offheap.Make[byte](&l.mem, int(s.Size))
	if err == nil {
		_, err = io.ReadFull(r, b)
	}
	if err != nil {
		return nil, fmt.Errorf("section %s: %w", s.Name, err)
	}
	return b, nil
}

// machFunctions finds functions: the linker lists their starts, and symbols
// name them. zig's linker lists none; there, what is called directly, or by
// dyld, is a function besides what has a symbol.
func (l *library) machFunctions(f *machofile.File, syms []machofile.Symbol) error {
	listed, err := f.FunctionStarts()
	if err != nil {
		return err
	}
	l.symbol = func(sym int32, _ bool) string { return strings.TrimPrefix(syms[sym].Name, "_") }
	var starts []start
	add := func(addr uint64, sym int, bind elf.SymBind, flags startFlags) {
		if seg := l.segmentAt(addr); seg >= 0 && l.text[seg].name != "__stubs" {
			starts = append(starts, start{addr: addr, seg: int32(seg), sym: int32(sym), group: -1, bind: bind, typ: elf.STT_FUNC, flags: flags})
		}
	}
	for _, a := range listed {
		add(a, -1, elf.STB_LOCAL, 0)
	}
	if l.unlisted = len(listed) == 0; l.unlisted {
		for _, r := range l.load {
			add(r.addr, -1, elf.STB_LOCAL, 0)
		}
		for i := range l.text {
			l.callTargets(&l.text[i], func(a uint64) { add(a, -1, elf.STB_LOCAL, 0) })
		}
	}
	for i := range syms {
		y := &syms[i]
		if !y.Defined() {
			continue
		}
		name := strings.TrimPrefix(y.Name, "_")
		exported := y.External() && !y.PrivateExternal()
		bind := elf.STB_LOCAL
		switch {
		case y.WeakDef():
			bind = elf.STB_WEAK
		case y.External():
			bind = elf.STB_GLOBAL
		}
		if stateName(name) {
			l.state = append(l.state, dataSym{name, y.Value, 16})
		}
		// A local label within a function is no function.
		_, start := slices.BinarySearch(listed, y.Value)
		if len(listed) == 0 || start || exported {
			sym := i
			if name == "" {
				sym = -1
			}
			add(y.Value, sym, bind, outlined(name))
		}
		if exported && l.segmentAt(y.Value) >= 0 {
			l.dyn = append(l.dyn, elffile.Symbol{Name: name, Value: y.Value, Bind: bind, Type: elf.STT_FUNC, Shndx: uint32(y.Sect)})
		}
	}
	data, err := f.DataInCode()
	if err != nil {
		return err
	}
	for _, r := range data {
		l.literals = append(l.literals, span{r.Addr, r.Size})
	}
	if err := l.cut(starts, &l.mem); err != nil {
		return err
	}
	l.jumpTables()
	return nil
}

// jumpTables finds the tables of switch statements, which clang puts behind an
// x86-64 function for macOS; not every linker lists them as data. A table is
// where the function takes an address of itself, and holds distances from its
// start to places in the function.
func (l *library) jumpTables() {
	if l.machine != machineX86 {
		return
	}
	var in x86.Inst
	for i := range l.fns {
		f := &l.fns[i]
		b := l.code(f)
		for at := 0; at < len(b); {
			if !in.Decode(b[at:]) {
				at++
				continue
			}
			to, rip := in.RIPTarget(f.addr + uint64(at))
			at += int(in.Len)
			if !rip || in.Map != 0 || in.Op != 0x8d || to < f.addr+uint64(at) || to >= f.end() || to%4 != 0 {
				continue
			}
			n := to - f.addr
			for n+4 <= uint64(len(b)) && to+uint64(int64(int32(word(b, n))))-f.addr < to-f.addr {
				n += 4
			}
			if size := n - (to - f.addr); size >= 8 {
				l.literals = append(l.literals, span{to, size})
			}
		}
	}
	slices.SortFunc(l.literals, func(a, b span) int { return cmp.Compare(a.addr, b.addr) })
	l.literals = slices.Compact(l.literals)
}

// callTargets reports where the direct calls of a segment go.
func (l *library) callTargets(seg *segment, found func(uint64)) {
	var in x86.Inst
	for at := 0; at < len(seg.bytes); {
		pc := seg.addr + uint64(at)
		if l.machine != machineX86 {
			if at+4 > len(seg.bytes) {
				return
			}
			if d := a64.Decode(word(seg.bytes, uint64(at))); d.Flow == a64.Call {
				found(pc + uint64(d.Imm))
			}
			at += 4
			continue
		}
		if !in.Decode(seg.bytes[at:]) {
			at++
			continue
		}
		if in.Flow == x86.FlowCall {
			found(in.Target(pc))
		}
		at += int(in.Len)
	}
}

// machInits reads what dyld calls when it loads and unloads the file: pointers,
// or offsets from its start.
func (l *library) machInits(f *machofile.File) error {
	for i := range f.Segments {
		for j := range f.Segments[i].Sections {
			s := &f.Segments[i].Sections[j]
			step := 8
			switch s.Type() {
			case machofile.InitOffsets:
				step = 4
			case machofile.InitPointers, machofile.TermPointers:
			default:
				continue
			}
			b, err := f.Data(s)
			if err != nil {
				return err
			}
			for k := 0; k+step <= len(b); k += step {
				var to uint64
				switch {
				case step == 4:
					to = f.Base() + uint64(f.Order.Uint32(b[k:]))
				case f.Chained():
					v, _ := l.slots.at(s.Addr + uint64(k))
					to = v.addr
				default:
					to = f.Order.Uint64(b[k:])
				}
				if to != 0 {
					l.load = append(l.load, root{addr: to, why: s.Name + "[" + itoa(k/step) + "]"})
				}
			}
		}
	}
	return nil
}

// machWords takes, in a file without chains, a word of data that is the
// address of a function for a pointer to it.
func (l *library) machWords(f *machofile.File) error {
	if f.Chained() {
		return nil
	}
	left := newBudget(f.Size())
	for i := range f.Segments {
		for j := range f.Segments[i].Sections {
			s := &f.Segments[i].Sections[j]
			if t := s.Type(); f.Segments[i].InitProt&machWrite == 0 || s.Code() || t == machofile.InitPointers || t == machofile.TermPointers {
				continue
			}
			b, err := f.Data(s)
			if err == nil {
				err = left.take(uint64(len(b)), s.Name)
			}
			if err != nil {
				return err
			}
			for k := 0; k+8 <= len(b); k += 8 {
				place, to := s.Addr+uint64(k), f.Order.Uint64(b[k:])
				if _, known := l.slots.at(place); !known && to != 0 && l.segmentAt(to) >= 0 {
					l.point(place, to)
				}
			}
		}
	}
	return nil
}
