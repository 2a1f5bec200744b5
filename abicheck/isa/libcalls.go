package isa

import (
	"cmp"
	"context"
	"debug/elf"
	"fmt"
	"slices"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// load reports ISA-LOAD.
func (c *checker) load(l *library, w *walker, found map[uint64]bool) {
	more, last := 0, -1
	defer func() {
		if more > 0 {
			c.out[last].Detail = append(c.out[last].Detail, fmt.Sprintf("and so for %d more entry points: the file may be compiled for more as a whole", more))
		}
	}()
	n := 0
	for _, r := range l.load {
		fn := l.at(r.addr)
		if fn < 0 {
			continue
		}
		walk := w.from
		if r.ifunc {
			walk = w.resolver
		}
		for _, h := range walk(fn) {
			if found[h.addr] {
				continue
			}
			found[h.addr] = true
			if n++; n > maxLoad {
				more++
				break
			}
			f := &l.fns[h.fn]
			last = len(c.out)
			c.at(h.addr, l.name(f), "ISA-LOAD", rule.Error,
				fmt.Sprintf("%s instruction at 0x%x runs when the library is loaded, before any CPU test", c.t.names(l.featAt(h.addr, &c.t)), h.addr),
				"make the global constexpr or constinit, or a function-local static inside the entry point",
				r.text()+" -> "+l.label(fn)+l.chain(h), "on "+c.t.cpu+" dlopen gets SIGILL")
			break // one for each entry point: the rest has the same cause
		}
	}
}

// featAt returns the features above the baseline of the instruction at addr.
func (im *image) featAt(addr uint64, t *target) uint64 {
	i := im.at(addr)
	if i < 0 {
		return 0
	}
	f := &im.fns[i]
	var in insn
	if im.next(f, addr, &in) {
		return t.above(in.feat, false)
	}
	return f.feat
}

// calls reports ISA-CALL: the same walk from exported functions and from
// functions whose address lies in data.
func (c *checker) calls(ctx context.Context, l *library, w *walker, own bool, found map[uint64]bool, unitBody map[bodyHash]bool) error {
	type reached struct {
		h    hit
		r    root
		fn   int
		base bool
	}
	var all []reached
	for k, n := range []int{len(l.exported), len(l.taken)} {
		for i := range n {
			var r root
			if k == 0 {
				r = l.exported[i]
			} else {
				r = root{addr: l.taken[i].addr, place: l.taken[i].place}
			}
			if i%64 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			fn := l.at(r.addr)
			if fn < 0 || l.fns[fn].feat != 0 {
				continue // above the baseline itself: that is for ISA-EXPORT and ISA-PROV
			}
			if k == 1 && len(unitBody) > 0 {
				if h, ok := l.hash(fn); ok && unitBody[h] {
					continue // a unit's own wrapper in a table of the unit
				}
			}
			for _, h := range w.from(fn) {
				if found[h.addr] {
					continue
				}
				found[h.addr] = true
				base := k == 0
				all = append(all, reached{h, r, fn, base})
			}
		}
	}
	if !own {
		if len(all) > 0 {
			x := all[0]
			f := &l.fns[x.h.fn]
			nf := c.at(x.h.addr, l.name(f), "ISA-CALL", rule.Note,
				fmt.Sprintf("%d places above the baseline can be reached from outside without a CPU test that this walk sees", len(all)),
				"", "such as "+x.r.text()+": "+l.label(x.fn)+l.chain(x.h))
			nf.Confidence = rule.Guess
		}
		return nil
	}
	// A caller compiled for the baseline is the telling case: it comes first.
	slices.SortStableFunc(all, func(a, b reached) int { return cmp.Compare(l.telling(b.h), l.telling(a.h)) })
	for i, x := range all {
		if i == maxEach {
			break
		}
		f := &l.fns[x.h.fn]
		sev, conf := rule.Warning, rule.Guess
		if x.base {
			sev, conf = rule.Error, rule.Likely
		}
		detail := []string{x.r.text() + ": " + l.label(x.fn) + l.chain(x.h)}
		if l.telling(x.h) == 1 {
			detail = append(detail, "called from: "+l.label(x.h.chain.lastCaller())+" (baseline code, no CPU test on the path)")
		}
		nf := c.at(x.h.addr, l.name(f), "ISA-CALL", sev,
			fmt.Sprintf("%s code at 0x%x is reached without a CPU test", c.t.names(l.featAt(x.h.addr, &c.t)), x.h.addr),
			"test the CPU before the call, or dispatch through a pointer that a test sets", detail...)
		nf.Confidence = conf
	}
	return nil
}

// telling is 1 if the direct caller of a hit is compiled for the baseline.
func (l *library) telling(h hit) int {
	if h.chain == nil {
		return 0
	}
	if f := &l.fns[h.chain.lastCaller()]; f.sse && !f.vex {
		return 1
	}
	return 0
}

func (k *link) lastCaller() int {
	for k.next != nil {
		k = k.next
	}
	return k.fn
}

// exports reports ISA-EXPORT.
func (c *checker) exports(l *library, o *rule.Options, own bool) {
	sev := rule.Warning
	if !own {
		sev = rule.Note
	}
	n := 0
	var first *elfSym
	var declared = slices.Clone(o.Exports)
	for i := range l.dyn {
		s := &l.dyn[i]
		if s.Undefined() || s.Type != elf.STT_FUNC || slices.Contains(declared, s.Name) {
			continue
		}
		fn := l.at(s.Value)
		if fn < 0 || l.fns[fn].addr != s.Value || l.fns[fn].feat == 0 {
			continue
		}
		n++
		if first == nil {
			first = &elfSym{s.Name, s.Value, l.fns[fn].feat, s.Bind}
		}
		if own && n <= maxEach {
			what := "other libraries can call it untested"
			if s.Bind == elf.STB_WEAK || s.Bind == elf.STB_LOOS {
				what = "it is weak: in a process that loads this library first, other libraries get this copy"
			}
			c.at(s.Value, s.Name, "ISA-EXPORT", sev, fmt.Sprintf("%s is exported and contains %s code", label(s.Name), c.t.names(l.fns[fn].feat)),
				"give it hidden visibility, or list it in a version script as local", what)
		}
	}
	if !own && n > 0 {
		c.at(first.addr, first.name, "ISA-EXPORT", sev, fmt.Sprintf("%d exported functions contain code above the baseline, such as %s (%s)", n, label(first.name), c.t.names(first.feat)), "")
	}
}
