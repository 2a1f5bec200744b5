package isa

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// An idiom is a way to choose an implementation at run time, as a source in
// testdata/dispatch.
type idiom struct {
	name, flags string
	calls       string // exported functions that the probe calls
	errors      string // the ids of errors
	// undecided is a SIGILL that no error announces: the walk knows that a
	// branch tests the processor, not which arm is right.
	undecided bool
}

var idioms = []idiom{
	{name: "g01", calls: "row"}, {name: "g02", calls: "row"}, {name: "g03", calls: "row"}, {name: "g04", calls: "row"},
	{name: "g05", calls: "row"}, {name: "g06", calls: "row"}, {name: "g07", calls: "row"}, {name: "g08", calls: "row"},
	{name: "g09", calls: "row"}, {name: "g10", calls: "row"}, {name: "g11", calls: "row"}, {name: "g12", calls: "row"},
	{name: "g13", calls: "row"},
	{name: "g13", flags: "-DEXPORTED", calls: "row,_Z3impILi2EEvPfi", errors: "ISA-CALL"},
	{name: "g14", calls: "row"}, {name: "g15", calls: "row"},
	{name: "g16", calls: "row", errors: "ISA-CALL"},
	{name: "g17", calls: "row", undecided: true},
}

// TestDispatch builds every idiom with every compiler, links it with a unit
// in both orders, judges the library as it is and stripped, as thoxbuild's own
// and as anybody's, and compares the verdict with a run on a processor that
// lacks the unit's instructions.
func TestDispatch(t *testing.T) {
	if len(compilers()) == 0 {
		t.Skip("no g++ to build the fixtures with")
	}
	for _, c := range compilers() {
		levels := []string{"-O0", "-O2", "-O3"}
		if !full { // what ships, and what defeats a walk most easily
			levels = levels[1:2]
			if c.name == "g++" {
				levels = []string{"-O0", "-O2"}
			}
		}
		for _, level := range levels {
			t.Run(c.name+level, func(t *testing.T) {
				t.Parallel()
				dispatch(t, &c, level)
			})
		}
	}
}

func dispatch(t *testing.T, c *cxx, level string) {
	dir := t.TempDir()
	unit := c.object(t, dir, "dispatch/unit.cpp", "-mavx2", level)
	us := subject(t, unit, rule.ISAObject)
	us.Unit = &rule.Unit{Name: "avx2", Entries: []string{"row_avx2"}}
	type built struct {
		idiom
		lib    string
		failed bool
	}
	var all []built
	var calls []call
	for i, g := range idioms {
		obj := c.object(t, dir, "dispatch/"+g.name+".cpp", append(strings.Fields(g.flags), level)...)
		gs := subject(t, obj, rule.BaselineObject)
		for order := range 2 {
			if !full && order != i%2 {
				continue
			}
			link := &rule.Link{Objects: []*rule.Subject{gs, us}}
			args := []string{obj, unit}
			if order == 1 {
				slices.Reverse(link.Objects)
				slices.Reverse(args)
			}
			gs.Link, us.Link = link, link
			for _, s := range link.Objects {
				fs, err := checkObject(t.Context(), s, &rule.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if v := verdicts(fs); v != "" {
					t.Errorf("%s %s: %s: %s\n%s", g.name, g.flags, s.File, v, explainAll(fs))
				}
			}
			so := filepath.Join(dir, fmt.Sprintf("%s%s_%d.so", g.name, g.flags, order))
			c.link(t, so, args...)
			stripped := filepath.Join(dir, "stripped_"+filepath.Base(so))
			command(t, "strip", "-o", stripped, so)
			failed := false
			for _, path := range []string{so, stripped} {
				for _, role := range []rule.Role{rule.Linked, rule.Foreign} {
					s := subject(t, path, role)
					want := g.errors
					if role == rule.Linked {
						s.Link = link
					} else {
						want = "" // calls from outside are only noted
					}
					fs, err := checkLibrary(t.Context(), s, &rule.Options{})
					if err != nil {
						t.Fatal(err)
					}
					got := verdicts(slices.DeleteFunc(slices.Clone(fs), func(f rule.Finding) bool { return f.Severity != rule.Error }))
					if got = strings.ReplaceAll(got, "E ", ""); got != want {
						t.Errorf("%s, %v: %q, want %q\n%s", filepath.Base(path), role, got, want, explainAll(fs))
					}
					if got == "" && role == rule.Linked && slices.ContainsFunc(fs, func(f rule.Finding) bool { return f.Severity == rule.Warning }) {
						t.Errorf("%s: a warning about a clean library\n%s", filepath.Base(path), explainAll(fs))
					}
					failed = failed || got != ""
				}
			}
			all = append(all, built{g, so, failed})
			calls = append(calls, call{so, g.calls})
		}
	}
	died, ok := onNehalem(t, calls)
	if !ok {
		return
	}
	for _, b := range all {
		ill := died[call{b.lib, "dlopen"}]
		for fn := range strings.SplitSeq(b.calls, ",") {
			ill = ill || died[call{b.lib, fn}]
		}
		if ill != (b.errors != "" || b.undecided) {
			t.Errorf("%s: SIGILL on a Nehalem is %v; the table says %q", filepath.Base(b.lib), ill, b.errors)
		}
	}
}
