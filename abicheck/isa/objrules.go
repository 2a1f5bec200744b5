package isa

import (
	"context"
	"debug/elf"
	"fmt"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

const machineX86 = elf.EM_X86_64

// checker gathers the findings about one subject.
type checker struct {
	s   *rule.Subject
	t   target
	out []rule.Finding
}

// libraryNames are namespaces whose inline functions every object may have.
var libraryNames = []string{"_ZNSt", "_ZNKSt", "_ZSt", "_ZN9__gnu_cxx", "_ZNK9__gnu_cxx", "_ZN3c10", "_ZNK3c10", "_ZN2at", "_ZNK2at", "_ZN5torch", "_ZNK5torch", "_ZNSa", "_ZNKSa", "_ZNSs"}

func libraryName(name string) bool {
	return slices.ContainsFunc(libraryNames, func(p string) bool { return strings.HasPrefix(name, p) })
}

// member is an object of a link, and what the rules ask about the others.
type member struct {
	s    *rule.Subject
	o    *object
	unit bool
	defs map[string]uint64 // weak units this object offers -> features
	refs map[string]bool   // undefined symbols
	strg map[string]bool   // strong definitions
	err  error
}

// openMember reads an object and scans it for its role.
func openMember(ctx context.Context, s *rule.Subject, strict bool) *member {
	m := &member{s: s, unit: s.Role == rule.ISAObject}
	t, ok, err := targetOf(s, strict)
	if err != nil || !ok {
		m.err = err
		return m
	}
	if s.MachO != nil {
		m.o, m.err = openMachObject(s.MachO)
	} else {
		m.o, m.err = openObject(s.ELF)
	}
	if m.err != nil {
		return m
	}
	if m.err = m.o.scan(ctx, &t, m.unit); m.err != nil {
		return m
	}
	m.defs, m.refs, m.strg = map[string]uint64{}, map[string]bool{}, map[string]bool{}
	for i := range m.o.fns {
		f := &m.o.fns[i]
		if m.o.weak(f) {
			m.defs[m.o.unit(f)] |= f.feat
		}
	}
	for i := range m.o.syms {
		switch y := &m.o.syms[i]; {
		case y.Name == "":
		case y.Undefined():
			m.refs[y.Name] = true
		case y.Bind == elf.STB_GLOBAL:
			m.strg[y.Name] = true
		}
	}
	return m
}

// checkObject applies the object rules to one subject of a link, or to an
// object that nobody declared.
func checkObject(ctx context.Context, s *rule.Subject, o *rule.Options) ([]rule.Finding, error) {
	t, ok, err := targetOf(s, o.Strict)
	if err != nil || !ok {
		return nil, err
	}
	c := &checker{s: s, t: t}
	if lto(s) {
		return []rule.Finding{BytecodeOnly(s)}, nil
	}
	set, m, err := linkSet(ctx, s, o.Strict)
	if err != nil {
		return nil, err
	}
	conf := rule.Certain
	unit := m.unit
	if s.Role == rule.Foreign {
		conf = rule.Likely
		if unit = inferUnit(m.o); unit != m.unit {
			// Scan again: in code compiled for more, tzcnt counts.
			for i := range m.o.fns {
				m.o.fns[i].traits = traits{}
			}
			if err := m.o.scan(ctx, &t, unit); err != nil {
				return nil, err
			}
		}
	}
	m.o.guards = o.Guards
	if _, err := m.o.declare(ctx, s, o, m.o); err != nil {
		return nil, err
	}
	m.o.done = ctx.Done()
	c.groups(m, set, unit)
	c.inits(m, unit)
	if unit {
		c.entries(m, set)
	} else {
		c.base(m)
	}
	if conf != rule.Certain {
		for i := range c.out {
			c.out[i].Confidence = conf
		}
	}
	return c.out, ctx.Err()
}

// dataNamed implements named.
func (o *object) dataNamed(name string) (dataSym, bool) {
	for i := range o.syms {
		if s := &o.syms[i]; s.Name == name && s.Type != elf.STT_FUNC {
			if a := o.address(uint32(i)); a != 0 {
				return dataSym{name, a, max(s.Size, 4)}, true
			}
		}
	}
	return dataSym{}, false
}

// functionsNamed implements named.
func (o *object) functionsNamed([]string) func(*function) string { return o.name }

// BytecodeOnly is the finding about an object without code: ISA-LTO.
func BytecodeOnly(s *rule.Subject) rule.Finding {
	f := s.Finding("ISA-LTO", rule.Error, "holds only link-time-optimisation bytecode, so its code cannot be checked")
	f.Fix = "compile this object with -fno-lto"
	f.Detail = []string{"the linker would generate its code later and may merge initialisers of different ISAs"}
	return f
}

// inferUnit guesses whether an object was compiled for more than the
// baseline: it has functions of its own above it and no vector code of the
// baseline, which -mavx code never has. On AArch64 one encoding serves both,
// and what gives an object of the baseline away is that it asks the CPU, or
// calls outline atomics, which code compiled for LSE never does.
func inferUnit(o *object) bool {
	var above, legacy int
	for i := range o.fns {
		f := &o.fns[i]
		if f.feat != 0 {
			above++
		} else if f.sse && !f.vex || f.cpuid {
			legacy++
		}
	}
	if o.machine == elf.EM_AARCH64 {
		for i := range o.syms {
			if s := &o.syms[i]; s.Undefined() && (o.asks(s.Name) || o.holds(s.Name) || outlined(s.Name) != 0) {
				legacy++
			}
		}
	}
	return above > 0 && legacy == 0
}

func lto(s *rule.Subject) bool {
	if s.MachO != nil {
		return false // its objects of bytecode are bare, and abicheck tells them by that
	}
	var bytecode, code bool
	for i := range s.ELF.Sections {
		sec := &s.ELF.Sections[i]
		if strings.HasPrefix(sec.Name, ".gnu.lto_") || sec.Name == ".llvmbc" || sec.Name == ".llvm.lto" {
			bytecode = true
		}
		if sec.Flags&elf.SHF_EXECINSTR != 0 && sec.Size > 0 {
			code = true
		}
	}
	return bytecode && !code
}

func (c *checker) add(id string, sev rule.Severity, msg, fix string, detail ...string) *rule.Finding {
	f := c.s.Finding(id, sev, msg)
	f.Fix = fix
	f.Detail = detail
	c.out = append(c.out, f)
	return &c.out[len(c.out)-1]
}

// spot is add with the first offending instruction of fn as its place.
func (c *checker) spot(o *object, fn *function, id string, sev rule.Severity, msg, fix string, detail ...string) *rule.Finding {
	f := c.add(id, sev, msg, fix, detail...)
	at := fn.addr
	if fn.feat != 0 {
		at = fn.first
	}
	f.Section, f.Offset = o.place(at)
	f.HasOffset = true
	f.Symbol = o.name(fn)
	return f
}

// clone reports whether f is a variant of a multi-versioned function whose
// resolver is in this object: "name.avx2" beside an IFUNC "name".
func (o *object) clone(f *function) bool {
	stem, suffix, ok := strings.Cut(o.name(f), ".")
	if !ok || suffix == "" {
		return false
	}
	for i := range o.syms {
		if s := &o.syms[i]; s.Type == elf.STT_GNU_IFUNC && (s.Name == stem || strings.HasPrefix(s.Name, stem+".")) {
			return true
		}
	}
	return false
}

// isPointer reports whether data holds the address of code.
func (o *object) isPointer(addr uint64) bool {
	return slices.ContainsFunc(o.ptrs, func(p pointer) bool { return p.target == addr })
}

// chain prints the calls from an entry to a hit, outermost first.
func (im *image) chain(h hit) string {
	var names []string
	for l := h.chain; l != nil; l = l.next {
		names = append(names, im.label(l.fn))
	}
	if len(names) == 0 {
		return ""
	}
	names = append(names[1:], im.label(h.fn))
	if len(names) > 6 {
		names = append(append(slices.Clone(names[:3]), "..."), names[len(names)-2:]...)
	}
	return " -> " + strings.Join(names, " -> ")
}

func (im *image) label(fn int) string {
	f := &im.fns[fn]
	if name := im.name(f); name != "" {
		return label(name)
	}
	return fmt.Sprintf("sub_%x", f.addr)
}
