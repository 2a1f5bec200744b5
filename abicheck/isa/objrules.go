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

// groups reports ISA-COMDAT, -MIXED, TARGET-INLINE and -SHARED.
func (c *checker) groups(m *member, set []*member, unit bool) {
	o := m.o
	type offer struct {
		first *function
		feat  uint64
		group int32
	}
	var order []string
	offers := map[string]*offer{}
	for i := range o.fns {
		f := &o.fns[i]
		if !o.weak(f) {
			continue
		}
		name := o.unit(f)
		of := offers[name]
		if of == nil {
			of = &offer{group: f.group}
			offers[name] = of
			order = append(order, name)
		}
		of.feat |= f.feat
		if f.feat != 0 && of.first == nil {
			of.first = f
		}
	}
	for _, name := range order {
		of := offers[name]
		if of.feat == 0 {
			if unit {
				c.shared(m, set, name)
			}
			continue
		}
		feats := c.t.names(of.feat)
		what := "weak function " + label(name)
		var detail []string
		sec, off := o.place(of.first.first)
		if of.group >= 0 {
			what = "COMDAT group " + label(name)
			where := fmt.Sprintf("first: %s instruction at %s+0x%x", feats, sec, off)
			if n := o.name(of.first); n != name && n != "" {
				where += fmt.Sprintf(" (%s, in the same group)", label(n))
			}
			detail = append(detail, where)
			if p := o.poisoned(of.group); len(p) > 1 || len(p) == 1 && p[0] != name {
				detail = append(detail, "symbols that come with it: "+brief(p, 4))
			}
		}
		partners, wins := partners(m, set, name)
		detail = append(detail, partners...)
		if !unit {
			copies := differ(m, set, name, of.feat)
			if libraryName(name) || copies {
				detail = append(detail, fmt.Sprintf("a caller on %s gets SIGILL when the linker keeps this copy", c.t.cpu))
				c.spot(o, of.first, "ISA-COMDAT-MIXED", rule.Error,
					fmt.Sprintf("%s contains %s code in an object of the baseline", what, feats),
					"move #pragma GCC target (or the attribute) behind every #include", detail...)
			} else {
				c.spot(o, of.first, "ISA-TARGET-INLINE", rule.Warning,
					fmt.Sprintf("%s is compiled for %s in an object of the baseline; every caller must test the CPU", what, feats),
					"make it static, or define it in one ISA unit and declare it as an entry", detail...)
			}
			continue
		}
		if wins != "" {
			detail = append(detail, wins)
		}
		detail = append(detail, fmt.Sprintf("a linker keeps one copy for all callers; on %s they get SIGILL", c.t.cpu))
		c.spot(o, of.first, "ISA-COMDAT", rule.Error, fmt.Sprintf("%s contains %s code", what, feats),
			"keep the inline function out of this unit (an anonymous namespace, no such #include), or set isolate = true", detail...)
	}
}

// partners names the objects of a link that have the weak unit too, and what
// the link order makes of it.
func partners(m *member, set []*member, name string) (detail []string, wins string) {
	var with, callers []string
	first := m
	for _, x := range set {
		if x == m {
			continue
		}
		_, def := x.defs[name]
		if def {
			with = append(with, x.s.File)
			if !x.unit {
				callers = append(callers, x.s.File)
			}
		} else if x.refs[name] {
			callers = append(callers, x.s.File)
		}
	}
	for _, x := range set {
		if _, def := x.defs[name]; def {
			first = x
			break
		}
	}
	if len(with) > 0 {
		detail = append(detail, "also defined in: "+brief(with, 3))
	}
	switch {
	case len(set) < 2 || len(callers) == 0:
	case first == m:
		wins = fmt.Sprintf("link order: this object comes first, so this copy wins and %s would run it", brief(callers, 3))
	case !first.unit:
		wins = fmt.Sprintf("link order: %s comes first, so this copy loses today; another order or --start-lib changes that", first.s.File)
	}
	return detail, wins
}

// differ reports whether another object offers the unit with other features.
func differ(m *member, set []*member, name string, feat uint64) bool {
	for _, x := range set {
		if f, ok := x.defs[name]; x != m && ok && f != feat {
			return true
		}
	}
	return false
}

// shared reports a weak function of an ISA unit that is free of its features
// today and that a baseline object uses as well.
func (c *checker) shared(m *member, set []*member, name string) {
	for _, x := range set {
		if x == m || x.unit {
			continue
		}
		_, def := x.defs[name]
		if !def && !x.refs[name] {
			continue
		}
		f := c.add("ISA-COMDAT-SHARED", rule.Warning,
			fmt.Sprintf("weak function %s is shared with %s; it holds no %s today", label(name), x.s.File, "code above the baseline"),
			"set isolate = true, or keep the header out of this unit",
			"the next compiler may vectorise it, and then the copy in this unit must not win")
		f.Symbol = name
		return
	}
}

// inits reports ISA-INIT and ISA-IFUNC.
func (c *checker) inits(m *member, unit bool) {
	o := m.o
	var w *walker
	walk := func(addr uint64, from func(*walker, int) []hit) []hit {
		fn := o.at(addr)
		if fn < 0 {
			return nil
		}
		if w == nil {
			w = newWalker(&o.image, &c.t, unit)
			w.findState(nil)
		}
		return from(w, fn)
	}
	for _, p := range o.initialisers() {
		sec := o.sections[p.section].Name
		fn := o.at(p.target)
		name := "code"
		if fn >= 0 && o.name(&o.fns[fn]) != "" {
			name = label(o.name(&o.fns[fn]))
		}
		hits := walk(p.target, (*walker).from)
		switch {
		case len(hits) > 0:
			h := hits[0]
			c.spot(o, &o.fns[h.fn], "ISA-INIT", rule.Error,
				fmt.Sprintf("%s runs %s code when the library is loaded", name, c.t.names(o.fns[h.fn].feat)),
				"make the global constexpr or constinit, or a function-local static inside an entry point",
				fmt.Sprintf("%s -> %s%s", sec, name, o.chain(h)), "a loader calls it before any CPU test can")
		case unit:
			f := c.add("ISA-INIT", rule.Warning, fmt.Sprintf("%s runs when the library is loaded, and is compiled for more than the baseline", name),
				"make the global constexpr or constinit", sec+" -> "+name)
			f.Section, f.Offset, f.HasOffset = sec, p.off, true
		}
	}
	seen := map[uint64]bool{}
	for i := range o.fns {
		f := &o.fns[i]
		if f.typ != elf.STT_GNU_IFUNC || seen[f.addr] {
			continue
		}
		seen[f.addr] = true
		if hits := walk(f.addr, (*walker).resolver); len(hits) > 0 {
			h := hits[0]
			c.spot(o, &o.fns[h.fn], "ISA-IFUNC", rule.Error,
				fmt.Sprintf("the resolver of %s runs %s code while relocations are applied", label(o.name(f)), c.t.names(o.fns[h.fn].feat)),
				"compile the resolver for the baseline, in an object of its own", "resolver -> "+label(o.name(&o.fns[h.fn]))+o.chain(h))
		}
	}
}

// entries reports ISA-ENTRY and ISA-ENTRY-VIS for an object of an ISA unit.
func (c *checker) entries(m *member, set []*member) {
	o := m.o
	var declared []string
	if c.s.Unit != nil {
		declared = c.s.Unit.Entries
	}
	isEntry := func(name string) bool { return len(declared) == 0 || slices.Contains(declared, name) }
	for i := range o.fns {
		f := &o.fns[i]
		if f.bind != elf.STB_GLOBAL || o.weak(f) || f.pseudo || o.name(f) == "" {
			continue
		}
		switch {
		case !isEntry(o.name(f)):
			if f.feat != 0 {
				c.spot(o, f, "ISA-ENTRY", rule.Error,
					fmt.Sprintf("%s contains %s code and is global, but is no declared entry", label(o.name(f)), c.t.names(f.feat)),
					"put it in an anonymous namespace, or add it to the unit's entries",
					"any object may call it without a CPU test")
			}
			continue
		case len(declared) > 0:
			for _, x := range set {
				if x != m && x.unit && x.strg[o.name(f)] && x.s.Unit != c.s.Unit {
					c.spot(o, f, "ISA-ENTRY", rule.Error, fmt.Sprintf("entry %s is defined by another unit as well (%s)", label(o.name(f)), x.s.File),
						"give each unit's entries names of their own")
				}
			}
		}
		if f.feat != 0 && (f.vis == elf.STV_DEFAULT || f.vis == elf.STV_PROTECTED) {
			c.spot(o, f, "ISA-ENTRY-VIS", rule.Warning, fmt.Sprintf("entry %s has default visibility, so other libraries can call or replace it", label(o.name(f))),
				`declare it __attribute__((visibility("hidden"))), or compile with -fvisibility=hidden`)
		}
	}
	// A declared entry that no object of the unit has, told once.
	if c.s.Unit == nil || !leader(m, set) {
		return
	}
	for _, e := range declared {
		found := m.strg[e]
		for _, x := range set {
			found = found || x.s.Unit == c.s.Unit && x.strg[e]
		}
		if !found {
			c.add("ISA-ENTRY", rule.Error, fmt.Sprintf("the unit declares the entry %s, but no object of it defines it", label(e)),
				"correct the name in build.toml (C++ names are mangled unless extern \"C\")").Symbol = e
		}
	}
}

// leader reports whether m is the first object of its unit in the link.
func leader(m *member, set []*member) bool {
	for _, x := range set {
		if x.s.Unit == m.s.Unit {
			return x == m
		}
	}
	return true
}

// base reports ISA-BASE: code above the baseline in an object that any
// processor may run. What only runs behind a CPU test of this object, or is
// picked by a resolver of it, is noted.
func (c *checker) base(m *member) {
	o := m.o
	var above []int
	for i := range o.fns {
		if f := &o.fns[i]; f.feat != 0 && !o.weak(f) {
			above = append(above, i)
		}
	}
	if len(above) == 0 {
		return
	}
	w := newWalker(&o.image, &c.t, false)
	w.findState(nil)
	reached := map[uint64]hit{}
	for i := range o.fns {
		f := &o.fns[i]
		if f.bind == elf.STB_LOCAL && !o.isPointer(f.addr) || f.feat != 0 && f.bind == elf.STB_LOCAL && o.clone(f) {
			continue
		}
		if f.feat != 0 && o.clone(f) {
			continue
		}
		for _, h := range w.from(i) {
			if _, ok := reached[h.addr]; !ok {
				reached[h.addr] = h
			}
		}
	}
	for _, i := range above {
		f := &o.fns[i]
		h, hit := reached[f.first]
		switch {
		case o.clone(f):
			c.spot(o, f, "ISA-BASE", rule.Note, fmt.Sprintf("%s contains %s code; a resolver in this object picks it", label(o.name(f)), c.t.names(f.feat)), "")
		case hit || f.bind != elf.STB_LOCAL || f.pseudo:
			name := label(o.name(f))
			if f.pseudo {
				name = "code without a symbol"
			}
			detail := []string{"the object is compiled for the baseline, so nothing says that a CPU test comes first"}
			if hit && h.chain != nil {
				detail = append(detail, "called from: "+label(o.name(&o.fns[h.chain.fn])))
			}
			c.spot(o, f, "ISA-BASE", rule.Error, fmt.Sprintf("%s contains %s code in an object of the baseline", name, c.t.names(f.feat)),
				"move it to an ISA unit, or make it static and call it behind a CPU test", detail...)
		default:
			c.spot(o, f, "ISA-BASE", rule.Note, fmt.Sprintf("%s contains %s code, reached only behind a CPU test", label(o.name(f)), c.t.names(f.feat)), "")
		}
	}
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
