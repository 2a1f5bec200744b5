package facts

import (
	"context"
	"debug/elf"
	"fmt"
	"slices"
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

var exportPass = rule.Pass{
	Name: "exports",
	Run:  checkExports,
	Rules: []rule.Info{{
		ID: "EXPORTS", Severity: rule.Warning,
		Title: "exports names that could stand in for another library's",
		Explain: `An extension module is entered through PyInit_* and through what it registers
with torch; it need not export anything else. Every other default-visible name
can be bound in place of another library's of the same name, and the other way
round: two kernels with a function launch() then call each other's, and a copy
of a std:: or c10:: template may replace torch's own.

Only extension modules are judged: other libraries export by design. Names in
build.toml's entries and in --export are left out.

Compile with -fvisibility=hidden -fvisibility-inlines-hidden, link archives
with -Wl,--exclude-libs,ALL, or give the linker a version script.`,
	}, {
		ID: "UNIQUE", Severity: rule.Warning,
		Title: "defines process-wide unique symbols",
		Explain: `STB_GNU_UNIQUE symbols (static variables of inline functions and templates) are
shared by all libraries of the process, even those loaded privately, and keep
the library from ever being unloaded. Compile with -fno-gnu-unique.`,
	}},
}

// linkerMade are names that linkers define in every library.
var linkerMade = map[string]bool{
	"_init": true, "_fini": true, "_edata": true, "_end": true, "__bss_start": true,
	"__bss_start__": true, "__bss_end__": true, "_bss_end__": true, "__end__": true,
}

func checkExports(_ context.Context, s *rule.Subject, o *rule.Options) ([]rule.Finding, error) {
	if !linked(s) {
		return nil, nil
	}
	syms, err := s.ELF.DynSymbols()
	if err != nil {
		return nil, err
	}
	declared := map[string]bool{}
	for _, name := range o.Exports {
		declared[name] = true
	}
	for i := range o.Units {
		for _, name := range o.Units[i].Entries {
			declared[name] = true
		}
	}
	c := collect(s)
	extension := isExtension(s)
	counts := map[string][]string{}
	var unique []string
	for i := range syms {
		y := &syms[i]
		if y.Undefined() || y.Name == "" {
			continue
		}
		if y.Bind == elf.STB_LOOS { // STB_GNU_UNIQUE
			unique = append(unique, y.Name)
			continue
		}
		if !extension || y.Bind != elf.STB_GLOBAL && y.Bind != elf.STB_WEAK || y.Vis != elf.STV_DEFAULT ||
			y.Shndx == uint32(elf.SHN_ABS) && y.Size == 0 || linkerMade[y.Name] || declared[y.Name] || initFunction(y.Name) {
			continue
		}
		ns := namespace(y.Name)
		counts[ns] = append(counts[ns], y.Name)
	}
	if len(counts) > 0 {
		total := 0
		var lines []string
		for ns, names := range counts {
			total += len(names)
			lines = append(lines, fmt.Sprintf("%s: %d, such as %s", ns, len(names), slices.Min(names)))
		}
		slices.Sort(lines)
		if len(lines) > 12 {
			lines = append(lines[:12], fmt.Sprintf("and %d more namespaces", len(lines)-12))
		}
		c.add("EXPORTS", rule.Warning, fmt.Sprintf("exports %d symbols besides its init function", total),
			"compile with -fvisibility=hidden -fvisibility-inlines-hidden; link with -Wl,--exclude-libs,ALL", lines...)
	}
	if len(unique) > 0 {
		slices.Sort(unique)
		f := c.add("UNIQUE", rule.Warning, fmt.Sprintf("defines %d process-wide unique symbols (STB_GNU_UNIQUE)", len(unique)),
			"compile with -fno-gnu-unique", "such as "+listed(unique, 3))
		f.Symbol = unique[0]
	}
	return c.done(), nil
}

// namespace is the outermost C++ namespace of a name, for counting.
func namespace(name string) string {
	if !strings.HasPrefix(name, "_Z") {
		return "C names"
	}
	if len(name) > maxMangled {
		return "C++ names"
	}
	ast, err := demangle.ToAST(name)
	if err != nil {
		return "C++ names"
	}
	ns, nodes := "", 0
	ast.Traverse(func(a demangle.AST) bool {
		if nodes++; nodes > maxNodes {
			return false
		}
		if q, ok := a.(*demangle.Qualified); ok && ns == "" {
			scope := q.Scope
			for {
				inner, ok := scope.(*demangle.Qualified)
				if !ok {
					break
				}
				scope = inner.Scope
			}
			ns = astName(scope)
		}
		return ns == ""
	})
	if ns == "" {
		return "C++ names"
	}
	return ns + "::"
}
