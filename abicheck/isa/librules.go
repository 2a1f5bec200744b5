package isa

import (
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
