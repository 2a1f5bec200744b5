package facts

import (
	"cmp"
	"debug/elf"
	"fmt"
	"hash/maphash"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// PackageRules are broken by what a package holds together, which no single
// file shows; see Interposition.
var PackageRules = []rule.Info{{
	ID: "INTERPOSE", Severity: rule.Warning,
	Title: "exports a symbol that another library of the package exports too",
	Explain: `The loader binds a name to the first library in search order that exports it,
also for a library that has a definition of its own. Where one library needs
two that both export a function or an object of one name, only one of the two
definitions is used, by both. Two copies of a source file do no harm until they
differ: then one library runs the other's code, or writes a variable of another
size.

Compared are the strong, default-visible functions and objects, with their
versions, of all ELF libraries of one wheel, variant or tree. A warning is for
two that are in one search order: a library of the package needs both, directly
or through others, or one needs the other. A note is for two that meet only
when somebody loads them with RTLD_GLOBAL, which Python does not do with
extension modules. Libraries of one soname, of which a process loads one, pairs
that both bind to themselves (-Bsymbolic) and names of namespace std are left
out. Whether the two definitions are equal, and whether a library reaches its
own without the loader (-Bsymbolic-functions), is not looked at.

Keep the name in one library, hide it with -fvisibility=hidden or a version
script, or link both with -Wl,-Bsymbolic.`,
}}

const (
	// maxCompared bounds the names of a package that are held, maxClashes those
	// of which there are several. No wheel comes near.
	maxCompared = 1 << 19
	maxClashes  = 1 << 13
)

// Interposition compares the exports of the libraries of one package. The zero
// value is ready, and safe to use at the same time.
type Interposition struct {
	mu    sync.Mutex
	libs  []exporter
	seed  maphash.Seed
	first map[uint64]int32 // hash of a name: the library that came with it first
	clash map[string][]int32
	cut   bool
}

// exporter is what a library's search order is made of.
type exporter struct {
	file, member, name, soname string
	needed                     []string
	machine                    elf.Machine
	class                      elf.Class
	symbolic                   bool
}

func (e *exporter) dir() string {
	if e.member != "" {
		return path.Dir(e.member)
	}
	return filepath.Dir(e.file)
}

func (e *exporter) place() string {
	if e.member != "" {
		return e.member
	}
	return e.file
}

// Add takes in the exports of one library; other subjects are passed over.
// Nothing of the subject is kept.
func (p *Interposition) Add(s *rule.Subject) error {
	if !linked(s) {
		return nil
	}
	d, err := s.ELF.Dynamic()
	if d == nil || err != nil {
		return err
	}
	e := exporter{
		file: s.File, member: s.Member, name: s.Name, soname: strings.Clone(d.Soname),
		machine: s.ELF.Machine, class: s.ELF.Class, symbolic: d.Flags&elf.DF_SYMBOLIC != 0,
	}
	if _, ok := d.Value(elf.DT_SYMBOLIC); ok {
		e.symbolic = true
	}
	for _, n := range d.Needed {
		e.needed = append(e.needed, strings.Clone(n))
	}
	syms, err := s.ELF.DynSymbols()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first == nil {
		p.seed, p.first, p.clash = maphash.MakeSeed(), map[uint64]int32{}, map[string][]int32{}
	}
	me := int32(len(p.libs))
	p.libs = append(p.libs, e)
	for i := range syms {
		y := &syms[i]
		if y.Undefined() || y.Bind != elf.STB_GLOBAL || y.Vis != elf.STV_DEFAULT || y.Shndx == uint32(elf.SHN_ABS) ||
			y.Type != elf.STT_FUNC && y.Type != elf.STT_OBJECT && y.Type != elf.STT_GNU_IFUNC ||
			y.Name == "" || len(y.Name) > maxMangled || linkerMade[y.Name] || initFunction(y.Name) || standard(y.Name) {
			continue
		}
		name := y.Name
		if y.Version != "" {
			name += "@" + y.Version
		}
		h := maphash.String(p.seed, name)
		at, ok := p.first[h]
		switch {
		case !ok && len(p.first) >= maxCompared, ok && p.clash[name] == nil && len(p.clash) >= maxClashes:
			p.cut = true
		case !ok:
			p.first[h] = me
		case at != me:
			if p.clash[name] == nil {
				name = strings.Clone(name)
				p.clash[name] = append(p.clash[name], at)
			}
			if l := p.clash[name]; l[len(l)-1] != me {
				p.clash[name] = append(l, me)
			}
		}
	}
	return nil
}

// Findings compares what was added: one finding for each two libraries that
// meet in a search order, and a note on each other library that shares names.
func (p *Interposition) Findings() []rule.Finding {
	p.mu.Lock()
	defer p.mu.Unlock()
	meet := p.meetings()
	pairs := map[[2]int32][]string{}
	apart := map[int32]map[string]int32{}
	for name, libs := range p.clash {
		libs = slices.Clone(libs)
		slices.SortFunc(libs, p.compare)
		for i, a := range libs {
			for _, b := range libs[i+1:] {
				x, y := &p.libs[a], &p.libs[b]
				if x.machine != y.machine || x.class != y.class || x.symbolic && y.symbolic ||
					x.name == y.name || x.soname != "" && x.soname == y.soname {
					continue
				}
				if _, ok := meet[[2]int32{min(a, b), max(a, b)}]; ok {
					pairs[[2]int32{a, b}] = append(pairs[[2]int32{a, b}], name)
					continue
				}
				if apart[a] == nil {
					apart[a] = map[string]int32{}
				}
				if _, ok := apart[a][name]; !ok {
					apart[a][name] = b
				}
			}
		}
	}
	var out []rule.Finding
	for pair, names := range pairs {
		slices.Sort(names)
		a, b := &p.libs[pair[0]], &p.libs[pair[1]]
		root := &p.libs[meet[[2]int32{min(pair[0], pair[1]), max(pair[0], pair[1])}]]
		f := p.finding(a, rule.Warning, fmt.Sprintf("exports %s too, and %s has both in its search order: one definition is used for both",
			sharedNames(names, b), root.place()))
		f.Symbol = plainName(names[0])
		if len(names) > 1 {
			f.Detail = []string{"such as " + listed(names, 3)}
		}
		out = append(out, f)
	}
	for a, with := range apart {
		names := make([]string, 0, len(with))
		for name := range with {
			names = append(names, name)
		}
		slices.Sort(names)
		f := p.finding(&p.libs[a], rule.Note, fmt.Sprintf("exports %s too; they meet only when both are loaded with RTLD_GLOBAL",
			sharedNames(names, &p.libs[with[names[0]]])))
		f.Symbol = plainName(names[0])
		if len(names) > 1 {
			f.Detail = []string{"such as " + listed(names, 3)}
		}
		out = append(out, f)
	}
	if p.cut {
		out = append(out, p.finding(&p.libs[0], rule.Note, fmt.Sprintf("the package exports more than %d names, or more than %d of them twice: not all were compared", maxCompared, maxClashes)))
	}
	slices.SortFunc(out, func(a, b rule.Finding) int { return a.Compare(&b) })
	return out
}

func (p *Interposition) finding(e *exporter, sev rule.Severity, message string) rule.Finding {
	return rule.Finding{
		ID: "INTERPOSE", Severity: sev, File: e.file, Member: e.member, Message: message, Confidence: rule.Certain,
		Fix: "keep the name in one library, or hide it with -fvisibility=hidden or a version script",
	}
}

func (p *Interposition) compare(a, b int32) int {
	x, y := &p.libs[a], &p.libs[b]
	return cmp.Or(cmp.Compare(x.file, y.file), cmp.Compare(x.member, y.member))
}

// meetings lists the pairs of libraries, the lower index first, that are in
// the search order of one library of the package, with that library.
func (p *Interposition) meetings() map[[2]int32]int32 {
	byName := map[string][]int32{}
	for i := range p.libs {
		e := &p.libs[i]
		byName[e.name] = append(byName[e.name], int32(i))
		if e.soname != "" && e.soname != e.name {
			byName[e.soname] = append(byName[e.soname], int32(i))
		}
	}
	// Of several files of one name, the one beside its user is taken; which of
	// several elsewhere is not known.
	resolve := func(user int32, name string) (int32, bool) {
		all := byName[name]
		for _, i := range all {
			if p.libs[i].dir() == p.libs[user].dir() {
				return i, true
			}
		}
		if len(all) == 1 {
			return all[0], true
		}
		return 0, false
	}
	meet := map[[2]int32]int32{}
	roots := make([]int32, len(p.libs))
	for i := range roots {
		roots[i] = int32(i)
	}
	slices.SortFunc(roots, p.compare) // so that the same one is named each time
	for _, root := range roots {
		scope, seen := []int32{root}, map[int32]bool{root: true}
		for i := 0; i < len(scope); i++ {
			for _, name := range p.libs[scope[i]].needed {
				if lib, ok := resolve(scope[i], name); ok && !seen[lib] {
					seen[lib] = true
					scope = append(scope, lib)
				}
			}
		}
		for i, a := range scope {
			for _, b := range scope[i+1:] {
				k := [2]int32{min(a, b), max(a, b)}
				if _, ok := meet[k]; !ok {
					meet[k] = root
				}
			}
		}
	}
	return meet
}

func sharedNames(names []string, with *exporter) string {
	if len(names) == 1 {
		return fmt.Sprintf("%s, which %s does", names[0], with.place())
	}
	return fmt.Sprintf("%d symbols that %s does", len(names), with.place())
}

func plainName(name string) string {
	name, _, _ = strings.Cut(name, "@")
	return name
}

// standard reports whether a name is of namespace std, whose functions every
// library that defines them has from one standard library.
func standard(name string) bool {
	return strings.HasPrefix(name, "_ZSt") || strings.HasPrefix(name, "_ZNSt") || strings.HasPrefix(name, "_ZNKSt")
}

// initFunction reports whether Python asks one library for the symbol by name.
func initFunction(name string) bool {
	return strings.HasPrefix(name, "PyInit_") || strings.HasPrefix(name, "PyModExport_") || strings.HasPrefix(name, "PyInitU_")
}
