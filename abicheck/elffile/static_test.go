package elffile_test

import (
	"os"
	"testing"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
)

// sameStatic reports where EachSymbol and SymbolName differ from Symbols.
func sameStatic(t *testing.T, f *elffile.File) {
	t.Helper()
	want, err := f.Symbols()
	n := 0
	each := f.EachSymbol(func(i int, s *elffile.Symbol) {
		if i != n || i >= len(want) || *s != want[i] {
			t.Fatalf("symbol %d, after %d others of %d: %+v", i, n, len(want), s)
		}
		n++
	})
	if (err == nil) != (each == nil) || n != len(want) {
		t.Fatalf("Symbols: %d, %v; EachSymbol: %d, %v", len(want), err, n, each)
	}
	if count := f.SymbolCount(); err == nil && count != len(want) {
		t.Fatalf("SymbolCount: %d of %d", count, len(want))
	}
	for i := 0; i < len(want); i += 1 + len(want)/1000 {
		if name, err := f.SymbolName(i); err != nil || name != want[i].Name {
			t.Fatalf("the name of symbol %d: %q, %v; want %q", i, name, err, want[i].Name)
		}
	}
	if name, last := f.SymbolName(len(want)); err == nil && last == nil {
		t.Fatalf("symbol %d of as many is %q", len(want), name)
	}
}

// TestEachSymbol looks at this program, which has its symbols, at 32-bit and
// at damaged files.
func TestEachSymbol(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, self)
	if n := f.SymbolCount(); n < 1000 {
		t.Skipf("%d symbols: the test was linked without", n)
	}
	sameStatic(t, f)
}
