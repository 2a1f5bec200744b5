package isa

import (
	"fmt"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

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
