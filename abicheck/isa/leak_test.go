package isa

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
	"github.com/thox-ai/thoxbuild/compile/relink"
)

// A leak is an ISA unit and a baseline object that share an inline function,
// or a unit that runs when it is loaded.
type leak struct {
	unit, base string
	call       string // what the probe calls, empty for dlopen alone
	levels     string // the levels at which a compiler emits the function
	// at .so level an error, with the unit first
	errors string
	load   bool // dies at dlopen in either order
}

var leaks = []leak{
	{unit: "avx2_inline.cpp", base: "src/base_inline.cpp", call: "base_dot", levels: "-O0 -O2 -O3", errors: "ISA-CALL ISA-PROV"},
	{unit: "avx2_template.cpp", base: "src/base_template.cpp", call: "base_dot", levels: "-O0 -O2 -O3", errors: "ISA-CALL ISA-PROV"},
	{unit: "avx2_half.cpp", base: "src/base_half.cpp", call: "base_dot", levels: "-O0", errors: "ISA-CALL ISA-PROV"},
	{unit: "avx2_static_init.cpp", base: "dispatch/g05.cpp", levels: "-O0 -O2 -O3", errors: "ISA-LOAD", load: true},
	{unit: "avx2_global_vec.cpp", base: "dispatch/g05.cpp", levels: "-O2", errors: "ISA-LOAD", load: true},
}

// TestLeaks builds the leaks with every compiler, links them in both orders,
// as objects and out of archives, and compares the verdicts with a run on a
// processor without AVX; then it isolates the unit as the builder does on
// isolate = true, and the same library has to be clean and to run.
func TestLeaks(t *testing.T) {
	if len(compilers()) == 0 {
		t.Skip("no g++ to build the fixtures with")
	}
	for _, c := range compilers() {
		for _, level := range []string{"-O0", "-O2", "-O3"} {
			if !full && (level == "-O3" || level == "-O0" && c.name != "g++") {
				continue
			}
			t.Run(c.name+level, func(t *testing.T) {
				t.Parallel()
				testLeaks(t, &c, level)
			})
		}
	}
}

func testLeaks(t *testing.T, c *cxx, level string) {
	dir := t.TempDir()
	type expectation struct {
		call
		dies bool
		why  string
	}
	var expected []expectation
	for _, l := range leaks {
		if !slices.Contains(strings.Fields(l.levels), level) || l.unit == "avx2_global_vec.cpp" && c.name != "g++" { // only g++ needs AVX for it
			continue
		}
		unit := c.object(t, dir, "src/"+l.unit, append(strings.Fields(avx2), level, "-fvisibility=hidden")...)
		base := c.object(t, dir, l.base, level)
		isolated := filepath.Join(dir, "isolated_"+filepath.Base(unit))
		b, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		out, err := relink.Isolate(b, []string{"row_avx2"})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(isolated, out, 0o644); err != nil {
			t.Fatal(err)
		}
		archive := func(o string) string {
			a := strings.TrimSuffix(o, ".o") + ".a"
			command(t, "ar", "rcs", a, o)
			return a
		}
		for _, k := range []struct {
			name  string
			files []string // of the unit and the baseline, as they are linked
			unit  string
			first string // what the linker takes the shared function from
			fixed bool
		}{
			{"unitfirst", []string{unit, base}, unit, "unit", false},
			{"basefirst", []string{base, unit}, unit, "base", false},
			{"archivefirst", []string{"-Wl,--whole-archive", archive(unit), "-Wl,--no-whole-archive", base}, unit, "unit", false},
			{"isolatedfirst", []string{isolated, base}, isolated, "base", true},
		} {
			name := strings.TrimSuffix(l.unit, ".cpp") + "_" + k.name
			us, bs := subject(t, k.unit, rule.ISAObject), subject(t, base, rule.BaselineObject)
			us.Unit = &rule.Unit{Name: "avx2", Entries: []string{"row_avx2"}, Isolate: k.fixed}
			link := &rule.Link{Objects: []*rule.Subject{us, bs}}
			if k.first == "base" && !k.fixed {
				slices.Reverse(link.Objects)
			}
			us.Link, bs.Link = link, link
			// The objects tell, whatever the order of the link.
			fs, err := checkObject(t.Context(), us, &rule.Options{})
			if err != nil {
				t.Fatal(err)
			}
			found := strings.Contains(verdicts(fs), "E ISA-COMDAT") || strings.Contains(verdicts(fs), "E ISA-INIT")
			if want := !k.fixed || l.load; found != want {
				t.Errorf("%s: the object's leak is found: %v, want %v\n%s", name, found, want, explainAll(fs))
			}
			so := filepath.Join(dir, name+".so")
			c.link(t, so, k.files...)
			stripped := filepath.Join(dir, "stripped_"+name+".so")
			command(t, "strip", "-o", stripped, so)
			dies := l.load || !k.fixed && k.first == "unit"
			for _, path := range []string{so, stripped} {
				s := subject(t, path, rule.Linked)
				s.Link = link
				fs, err := checkLibrary(t.Context(), s, &rule.Options{})
				if err != nil {
					t.Fatal(err)
				}
				ids := strings.ReplaceAll(verdicts(slices.DeleteFunc(slices.Clone(fs), func(f rule.Finding) bool { return f.Severity != rule.Error })), "E ", "")
				want := ""
				if dies {
					want = strings.ReplaceAll(l.errors, " ", ", ")
				}
				if ids != want {
					t.Errorf("%s: %q, want %q\n%s", filepath.Base(path), ids, want, explainAll(fs))
				}
			}
			expected = append(expected, expectation{call{so, l.call}, dies, name})
		}
	}
	var calls []call
	for _, e := range expected {
		calls = append(calls, e.call)
	}
	died, ok := onNehalem(t, calls)
	for _, e := range expected {
		if ill := died[e.call] || died[call{e.lib, "dlopen"}]; ok && ill != e.dies {
			t.Errorf("%s: SIGILL on a Nehalem is %v, want %v", e.why, ill, e.dies)
		}
	}
}
