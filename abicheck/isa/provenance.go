package isa

import (
	"context"
	"debug/elf"
	"fmt"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// provenance reports ISA-PROV: every function above the baseline must be the
// body of a local function or a declared entry of an ISA unit. It fills in
// unitBody for the walks.
func (c *checker) provenance(ctx context.Context, l *library, o *rule.Options, unitBody map[bodyHash]bool) error {
	set, err := members(ctx, c.s.Link, o.Strict)
	if err != nil {
		return err
	}
	type origin struct {
		m    *member
		name string
		ok   bool
	}
	from := map[bodyHash]origin{}
	for _, m := range set {
		if m.err != nil || m.o == nil {
			continue
		}
		for i := range m.o.fns {
			f := &m.o.fns[i]
			if f.feat == 0 && !m.unit {
				continue
			}
			h, ok := m.o.hash(i)
			if !ok {
				continue
			}
			if m.unit && !m.o.weak(f) {
				unitBody[h] = true
			}
			if f.feat == 0 {
				continue
			}
			good := !m.o.weak(f) && (m.unit || f.bind == elf.STB_LOCAL || m.o.clone(f))
			if old, dup := from[h]; dup && (old.ok || !good) {
				continue
			}
			from[h] = origin{m, m.o.unit(f), good}
		}
	}
	w := (*walker)(nil)
	for i := range l.fns {
		f := &l.fns[i]
		if f.feat == 0 {
			continue
		}
		h, _ := l.hash(i)
		org, known := from[h]
		if known && org.ok {
			continue
		}
		feats := c.t.names(f.feat)
		if !known {
			if f.pseudo {
				continue // ISA-COVER counts these
			}
			c.at(f.first, l.name(f), "ISA-PROV", rule.Error, fmt.Sprintf("%s at 0x%x contains %s code that no local function of an ISA unit accounts for", l.label(i), f.addr, feats),
				"find the object or archive that it comes from; link-time optimisation and thread-local variables of a unit also end here")
			continue
		}
		var detail []string
		if w == nil {
			w = newWalker(&l.image, &c.t, false) // for its index alone
		}
		if caller, ok := l.baselineCaller(w, i); ok {
			detail = append(detail, "called from: "+caller+" (baseline code, no CPU test on the path)")
		}
		c.at(f.first, l.name(f), "ISA-PROV", rule.Error,
			fmt.Sprintf("0x%x %s is the %s copy from %s (group %s)", f.addr, l.label(i), feats, org.m.s.File, label(org.name)),
			"keep the inline function out of the unit, or set isolate = true", detail...)
	}
	return nil
}
