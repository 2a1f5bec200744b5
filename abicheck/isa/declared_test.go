package isa

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// TestDeclared checks that named guards and dispatchers silence exactly what
// they stand for, also in a stripped library, whose names are gone.
func TestDeclared(t *testing.T) {
	if len(compilers()) == 0 {
		t.Skip("no g++ to build the fixtures with")
	}
	for _, c := range compilers() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			obj, unit := c.object(t, dir, "dispatch/told.cpp", "-O2"), c.object(t, dir, "dispatch/unit.cpp", "-O2", "-mavx2")
			os, us := subject(t, obj, rule.BaselineObject), subject(t, unit, rule.ISAObject)
			us.Unit = &rule.Unit{Name: "avx2", Entries: []string{"row_avx2"}}
			link := &rule.Link{Objects: []*rule.Subject{os, us}}
			os.Link, us.Link = link, link
			so, stripped := filepath.Join(dir, "told.so"), filepath.Join(dir, "stripped.so")
			c.link(t, so, obj, unit)
			command(t, "strip", "-o", stripped, so)
			for _, o := range []struct {
				rule.Options
				want, note string
			}{
				{rule.Options{}, "E ISA-CALL", ""},
				{rule.Options{Guards: []string{"have_fast"}}, "", ""},
				{rule.Options{Dispatchers: []string{"row"}}, "", ""},
				{rule.Options{Guards: []string{"have_slow"}}, "E ISA-CALL", "not found here: have_slow"},
			} {
				for _, path := range []string{so, stripped} {
					s := subject(t, path, rule.Linked)
					s.Link = link
					fs, err := checkLibrary(t.Context(), s, &o.Options)
					if err != nil {
						t.Fatal(err)
					}
					if v, text := verdicts(fs), explainAll(fs); v != o.want || !strings.Contains(text, o.note) {
						t.Errorf("%s with guards %q, dispatchers %q: %q, want %q\n%s", filepath.Base(path), o.Guards, o.Dispatchers, v, o.want, text)
					}
				}
			}
		})
	}
}
