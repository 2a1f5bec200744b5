package isa

import (
	"debug/elf"
	"fmt"
	"slices"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

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
