package x86

import (
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

type function struct {
	addr uint64
	code []byte
}

// libraries lists the shared objects to compare on: small ones of the system
// always, torch's as well when THOXBUILD_TEST_FULL is set.
func libraries(t testing.TB) []string {
	pats := []string{"/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6"}
	if os.Getenv("THOXBUILD_TEST_FULL") != "" {
		root, _ := filepath.Abs("../../..")
		pats = append(pats, "/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
			root+"/.venv/lib/python3*/site-packages/numpy/_core/_multiarray_umath*.so",
			root+"/.venv/lib/python3*/site-packages/numpy.libs/*openblas*.so",
			root+"/.venv/lib/python3*/site-packages/torch/lib/libtorch_cpu.so")
	}
	var out []string
	for _, p := range pats {
		m, _ := filepath.Glob(p)
		out = append(out, m...)
	}
	if len(out) == 0 {
		t.Skip("no shared library to compare on")
	}
	return out
}

// functions cuts the code of f at its function symbols; a library without a
// symbol table gives its exported functions.
func functions(t testing.TB, f *elf.File) []function {
	syms, _ := f.Symbols()
	dyn, _ := f.DynamicSymbols()
	syms = append(syms, dyn...)
	slices.SortFunc(syms, func(a, b elf.Symbol) int {
		if a.Value != b.Value {
			if a.Value < b.Value {
				return -1
			}
			return 1
		}
		return int(int64(b.Size) - int64(a.Size))
	})
	data := map[elf.SectionIndex][]byte{}
	var out []function
	var end uint64
	for _, s := range syms {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Size == 0 || s.Section == elf.SHN_UNDEF || int(s.Section) >= len(f.Sections) || s.Value < end {
			continue
		}
		sec := f.Sections[s.Section]
		b, ok := data[s.Section]
		if !ok {
			var err error
			if b, err = sec.Data(); err != nil {
				t.Fatal(err)
			}
			data[s.Section] = b
		}
		if s.Value < sec.Addr || s.Value+s.Size > sec.Addr+uint64(len(b)) {
			continue
		}
		end = s.Value + s.Size
		out = append(out, function{s.Value, b[s.Value-sec.Addr : end-sec.Addr]})
	}
	return out
}

func benchmarkCode(b *testing.B) []function {
	f, err := elf.Open(libraries(b)[0])
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	return functions(b, f)
}
