package isa

import (
	"cmp"
	"context"
	"debug/elf"
	"fmt"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
	"github.com/thox-ai/thoxbuild/abicheck/isa/x86"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// maxEach bounds the findings of one rule on one file.
const maxEach = 50

// maxForeign is up to how much code what other files can call is looked at in
// a library that is not one's own, unless the check is strict: it makes a note
// at most, and takes most of the time.
const maxForeign = 64 << 20

// codeSize is how much code there is.
func (im *image) codeSize() (n int) {
	for i := range im.text {
		n += len(im.text[i].bytes)
	}
	return n
}

// maxLoad is the same for ISA-LOAD, whose findings have one cause more often
// than not.
const maxLoad = 8

func checkLibrary(ctx context.Context, s *rule.Subject, o *rule.Options) ([]rule.Finding, error) {
	t, ok, err := targetOf(s, o.Strict)
	if err != nil || !ok {
		return nil, err
	}
	l, err := openLibrary(s.ELF)
	if err != nil {
		return nil, err
	}
	defer l.close()
	return judge(ctx, s, o, t, l)
}

// judge applies the rules to a linked file of any format.
func judge(ctx context.Context, s *rule.Subject, o *rule.Options, t target, l *library) ([]rule.Finding, error) {
	c := &checker{s: s, t: t}
	l.guards, l.done = o.Guards, ctx.Done()
	if err := l.scanIndexed(ctx, &t, false); err != nil {
		return nil, err
	}
	c.note(l)
	missing, err := l.declare(ctx, s, o, l)
	if err != nil {
		return nil, err
	}
	c.missing(missing)
	own := s.Role == rule.Linked && s.Link != nil && len(s.Link.Objects) > 0
	if own && l.unlisted {
		// Where a function ends is not known, nor so whose it is.
		own = false
		c.add("ISA-PROV", rule.Note, "the linker listed no functions, so their code is not compared with the objects",
			"link with ld or lld of the system, which write LC_FUNCTION_STARTS")
	}
	unitBody := map[bodyHash]bool{} // every local function of the ISA units
	if own {
		if err := c.provenance(ctx, l, o, unitBody); err != nil {
			return nil, err
		}
	}
	if !slices.ContainsFunc(l.fns, func(f function) bool { return f.feat != 0 }) {
		return c.out, nil // nothing above the baseline: nothing to reach
	}
	w := newWalker(&l.image, &t, false)
	found := map[uint64]bool{}
	if roots := w.above(l.load); len(roots) > 0 {
		w.findState(roots)
		c.load(l, w, found)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if own || s.Role == rule.Foreign && (o.Strict || l.codeSize() <= maxForeign) {
		w.findState(nil)
		if err := c.calls(ctx, l, w, own, found, unitBody); err != nil {
			return nil, err
		}
	}
	c.exports(l, o, own)
	c.cover(l, o.Strict)
	return c.out, ctx.Err()
}

// missing notes declared names that nothing here has: misspelt, or of another
// platform.
func (c *checker) missing(names []string) {
	if len(names) > 0 {
		c.add("ISA-CALL", rule.Note, fmt.Sprintf("declared as guards or dispatchers, but not found here: %s", strings.Join(names, ", ")),
			"correct the names in build.toml (C++ names are mangled unless extern \"C\"); a name without a symbol cannot be data")
	}
}

// dataNamed implements named.
func (l *library) dataNamed(name string) (d dataSym, ok bool) {
	see := func(_ int, s *elffile.Symbol) {
		if !ok && s.Name == name && s.Type == elf.STT_OBJECT && !s.Undefined() {
			d, ok = dataSym{name, s.Value, max(s.Size, 4)}, true
		}
	}
	if l.f != nil {
		_ = l.f.EachSymbol(see) // as in discover
	}
	for i := range l.dyn {
		see(i, &l.dyn[i])
	}
	return d, ok
}

// functionsNamed implements named: it reads .symtab once, not the name of every
// function.
func (l *library) functionsNamed(names []string) func(*function) string {
	if l.f == nil {
		return l.name
	}
	static := map[int32]string{}
	_ = l.f.EachSymbol(func(i int, s *elffile.Symbol) {
		if k := slices.Index(names, s.Name); k >= 0 {
			static[int32(i)] = names[k]
		}
	})
	return func(f *function) string {
		if f.flags&dynamic != 0 {
			return l.name(f)
		}
		return static[f.sym]
	}
}

// at is add with an address.
func (c *checker) at(addr uint64, sym, id string, sev rule.Severity, msg, fix string, detail ...string) *rule.Finding {
	f := c.add(id, sev, msg, fix, detail...)
	f.Addr, f.HasAddr, f.Symbol = addr, true, sym
	return f
}

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

type elfSym struct {
	name string
	addr uint64
	feat uint64
	bind elf.SymBind
}

// cover reports ISA-COVER: code that belongs to no known function.
func (c *checker) cover(l *library, strict bool) {
	var total, outside, bytes uint64
	var first *function
	var insns int32
	for i := range l.text {
		total += uint64(len(l.text[i].bytes))
	}
	for i := range l.fns {
		f := &l.fns[i]
		if !f.pseudo || hasPrefix(l.text[f.seg].name, ".plt", "__stub") {
			continue
		}
		outside += f.size
		if f.feat != 0 && !f.bad {
			if first == nil {
				first = f
			}
			bytes += f.size
			insns += f.insns
		}
	}
	// What a compiler's start-up files add has neither symbols after strip nor
	// unwind ranges, and is more than that of a small library.
	const startup = 512
	if total == 0 || (outside*100 < total || outside < startup) && first == nil {
		return
	}
	sev := rule.Note
	msg := fmt.Sprintf("%.1f%% of the executable bytes belong to no known function", 100*float64(outside)/float64(total))
	addr := uint64(0)
	if first != nil {
		addr = first.first
		msg += fmt.Sprintf(" and hold code above the baseline (%d bytes, from 0x%x); it was not attributed", bytes, addr)
		if outside*100 >= total {
			sev = rule.Warning
		}
		if strict {
			sev = rule.Error
		}
	}
	c.at(addr, "", "ISA-COVER", sev, msg, "keep .symtab, or give assembly functions .type, .size and unwind directives")
}

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

// baselineCaller finds a function compiled for the baseline that calls fn.
func (l *library) baselineCaller(w *walker, fn int) (string, bool) {
	for _, i := range w.index.callers.of(fn) {
		if f := &l.fns[i]; !f.pseudo && f.feat == 0 && int(i) != fn {
			return l.label(int(i)), true
		}
	}
	return "", false
}

// note reports ISA-NOTE: what the file tells the loader that it needs.
func (c *checker) note(l *library) {
	if l.f == nil || l.machine != machineX86 {
		return
	}
	notes, err := l.f.Notes()
	if err != nil {
		return
	}
	levels := [...]struct {
		name string
		feat x86.Feat
	}{{"x86-64", x86.V1}, {"x86-64-v2", x86.V2}, {"x86-64-v3", x86.V3}, {"x86-64-v4", x86.V4}}
	for _, n := range notes {
		if n.Name != "GNU" || n.Type != 5 {
			continue
		}
		le := l.f.Order
		for d := n.Desc; len(d) >= 8; {
			typ, size := le.Uint32(d), le.Uint32(d[4:])
			if uint64(size) > uint64(len(d)-8) {
				break
			}
			if typ == 0xc0008002 && size >= 4 { // GNU_PROPERTY_X86_ISA_1_NEEDED
				v := le.Uint32(d[8:])
				for i := len(levels) - 1; i >= 0; i-- {
					if v>>i&1 == 0 {
						continue
					}
					if uint64(levels[i].feat)&^c.t.allowed != 0 {
						c.add("ISA-NOTE", rule.Error, fmt.Sprintf("the file's property note needs %s, so the loader refuses it on %s", levels[i].name, c.t.cpu),
							"link without -z "+levels[i].name+" and without -Wa,-mx86-used-note of such objects", `glibc says "CPU ISA level is lower than required"`)
					}
					break
				}
			}
			step := (int(size) + 8 + 7) &^ 7
			if step > len(d) {
				break
			}
			d = d[step:]
		}
	}
}
