package elffile_test

import (
	"debug/elf"
	"os"
	"testing"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
)

// open reads a real file; the test is skipped where it does not exist.
func open(t testing.TB, name string) *elffile.File {
	t.Helper()
	r, err := os.Open(name)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { r.Close() })
	st, err := r.Stat()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elffile.New(r, st.Size())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestAgainstDebugELF compares with the standard library, which finds the
// same facts through section headers, on the test binary's own C library.
func TestAgainstDebugELF(t *testing.T) {
	for _, name := range []string{"/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libstdc++.so.6", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/lib/aarch64-linux-gnu/libc.so.6"} {
		if _, err := os.Stat(name); err != nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			f := open(t, name)
			std, err := elf.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer std.Close()
			want, err := std.DynamicSymbols()
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.DynSymbols()
			if err != nil {
				t.Fatal(err)
			}
			got = got[1:]
			if len(got) != len(want) {
				t.Fatalf("%d symbols, debug/elf has %d", len(got), len(want))
			}
			for i := range want {
				w, g := &want[i], &got[i]
				if g.Name != w.Name || g.Version != w.Version || g.Value != w.Value || g.Size != w.Size || g.Shndx != uint32(w.Section) {
					t.Errorf("symbol %d: got %+v, debug/elf has %+v", i, *g, *w)
				}
			}
			d, err := f.Dynamic()
			if err != nil {
				t.Fatal(err)
			}
			needed, _ := std.DynString(elf.DT_NEEDED)
			if len(d.Needed) != len(needed) {
				t.Errorf("needed %v, debug/elf has %v", d.Needed, needed)
			}
		})
	}
}
