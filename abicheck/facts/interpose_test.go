package facts_test

import (
	"bytes"
	"debug/elf"
	"fmt"
	"path"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
	"github.com/thox-ai/thoxbuild/abicheck/elffile/elftest"
	"github.com/thox-ai/thoxbuild/abicheck/facts"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// TestInterposition holds which libraries of a package stand in each other's
// way: those of one search order that export one strong name.
func TestInterposition(t *testing.T) {
	type file struct {
		name string
		lib  elftest.Library
	}
	exports := func(soname string, names ...string) elftest.Library {
		l := elftest.Library{Soname: soname}
		for _, n := range names {
			l.Symbols = append(l.Symbols, elftest.Symbol{Name: n, Defined: true})
		}
		return l
	}
	needs := func(l elftest.Library, needed ...string) elftest.Library {
		l.Needed = needed
		return l
	}
	as := func(l elftest.Library, f func(*elftest.Symbol)) elftest.Library {
		for i := range l.Symbols {
			f(&l.Symbols[i])
		}
		return l
	}
	machine := func(l elftest.Library) elftest.Library {
		l.Machine = elf.EM_AARCH64
		return l
	}
	a := file{"p/liba.so", exports("liba.so", "launch", "only_a")}
	b := file{"p/libb.so", exports("libb.so", "launch", "only_b")}
	user := file{"p/_ops.abi3.so", needs(exports("", "PyInit__ops"), "liba.so", "libb.so", "libc.so.6")}
	for _, tt := range []struct {
		name  string
		files []file
		want  []string // severity, place, symbol
	}{
		{"alone", []file{a}, nil},
		{"both needed", []file{a, b, user}, []string{"warning p/liba.so launch"}},
		{"one needs the other", []file{a, {b.name, needs(b.lib, "liba.so")}}, []string{"warning p/liba.so launch"}},
		{"through a third", []file{a, b, {"p/libc.so", needs(exports("libc.so"), "libb.so")}, {user.name, needs(user.lib, "liba.so", "libc.so")}},
			[]string{"warning p/liba.so launch"}},
		{"apart", []file{a, b}, []string{"note p/liba.so launch"}},
		{"by soname", []file{a, {"p/libb-1f3a.so", b.lib}, user}, []string{"warning p/liba.so launch"}},
		{"extension modules", []file{{"p/_a.abi3.so", exports("", "PyInit__a", "launch")}, {"p/_b.abi3.so", exports("", "PyInit__b", "launch")}},
			[]string{"note p/_a.abi3.so launch"}},
		{"init functions", []file{{"p/x/_a.abi3.so", exports("", "PyInit__a")}, {"p/y/_b.abi3.so", exports("", "PyInit__a")}}, nil},
		{"weak", []file{{a.name, as(exports("liba.so", "launch"), func(s *elftest.Symbol) { s.Bind = elf.STB_WEAK })}, b, user}, nil},
		{"protected", []file{{a.name, as(exports("liba.so", "launch"), func(s *elftest.Symbol) { s.Vis = elf.STV_PROTECTED })}, b, user}, nil},
		{"unique", []file{{a.name, as(exports("liba.so", "launch"), func(s *elftest.Symbol) { s.Bind = elf.STB_LOOS })}, b, user}, nil},
		{"undefined", []file{{a.name, as(exports("liba.so", "launch"), func(s *elftest.Symbol) { s.Defined = false })}, b, user}, nil},
		{"other names", []file{a, {b.name, exports("libb.so", "only_b")}, user}, nil},
		{"one soname", []file{{"p/cu12/libk.so.1", exports("libk.so", "launch")}, {"p/cu13/libk.so.2", exports("libk.so", "launch")}}, nil},
		{"other processor", []file{a, {b.name, machine(b.lib)}}, nil},
		{"std", []file{{a.name, exports("liba.so", "_ZSt28__throw_bad_array_new_lengthv")}, {b.name, exports("libb.so", "_ZSt28__throw_bad_array_new_lengthv")}, user}, nil},
		{"linker's own", []file{{a.name, exports("liba.so", "_init", "_fini")}, {b.name, exports("libb.so", "_init", "_fini")}, user}, nil},
	} {
		for _, backwards := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", tt.name, backwards), func(t *testing.T) {
				files := slices.Clone(tt.files)
				if backwards {
					slices.Reverse(files)
				}
				var p facts.Interposition
				for _, x := range files {
					data := x.lib.Bytes()
					f, err := elffile.New(bytes.NewReader(data), int64(len(data)))
					if err != nil {
						t.Fatal(err)
					}
					s := &rule.Subject{File: x.name, Name: path.Base(x.name), ELF: f}
					if err := p.Add(s); err != nil {
						t.Fatal(err)
					}
				}
				var got []string
				for _, f := range p.Findings() {
					if f.ID != "INTERPOSE" || f.Message == "" || f.Fix == "" {
						t.Errorf("incomplete finding %+v", f)
					}
					got = append(got, fmt.Sprintf("%v %s %s", f.Severity, f.File, f.Symbol))
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("-want +got\n%s", diff)
				}
			})
		}
	}
}
