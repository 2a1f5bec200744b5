package torchexports

import (
	"bytes"
	"debug/elf"
	"path/filepath"
	"testing"

	"github.com/thox-ai/thoxbuild/manifests"
)

var cpu = manifests.Compute{Backend: manifests.CPU}

func platform(a manifests.Arch) manifests.Platform {
	return manifests.Platform{Arch: a, OS: manifests.Linux}
}

// TestTables looks at what is shipped: each table reads, and tells names that
// every torch exports from names that none does.
func TestTables(t *testing.T) {
	for _, v := range []string{"2.11", "2.12", "2.13", "2.14", "2.15"} {
		for _, a := range []manifests.Arch{manifests.X86_64, manifests.AArch64} {
			e, err := Find(manifests.MustVersion(v), cpu, platform(a))
			if err != nil || e == nil {
				t.Errorf("torch %s %s: no table: %v", v, a, err)
				continue
			}
			if e.Len() < 40_000 {
				t.Errorf("torch %s %s: only %d names", v, a, e.Len())
			}
			for _, name := range []string{"_ZTIN3c105ErrorE", "aoti_torch_delete_tensor_object"} {
				if !e.Has(name) {
					t.Errorf("torch %s %s: %s is missing", v, a, name)
				}
			}
			for _, name := range []string{"", "_ZN3c1011thox_nobodyEv", "PyModule_Create2", "malloc"} {
				if e.Has(name) {
					t.Errorf("torch %s %s: says that torch exports %q", v, a, name)
				}
			}
		}
	}
}

func TestFindKnowsItsLimits(t *testing.T) {
	cuda := manifests.Compute{Backend: manifests.CUDA, Version: manifests.MustVersion("13.0")}
	if e, err := Find(manifests.MustVersion("2.13"), cuda, platform(manifests.X86_64)); e != nil || err != nil {
		t.Errorf("CUDA: got %v, %v; a CPU table would call CUDA symbols missing", e, err)
	}
	if e, err := Find(manifests.MustVersion("9.99"), cpu, platform(manifests.X86_64)); e != nil || err != nil {
		t.Errorf("unknown release: got %v, %v", e, err)
	}
}

// TestAgainstInstalledTorch compares the 2.13 table with the libraries of an
// installed torch, name by name.
func TestAgainstInstalledTorch(t *testing.T) {
	dirs, _ := filepath.Glob("../../.venv/lib/python3*/site-packages/torch-2.13*.dist-info")
	if len(dirs) == 0 {
		t.Skip("no torch 2.13 in .venv")
	}
	e, err := Find(manifests.MustVersion("2.13"), cpu, platform(manifests.X86_64))
	if err != nil || e == nil {
		t.Fatal(err)
	}
	var names []string
	for _, lib := range Libraries {
		f, err := elf.Open(filepath.Join(filepath.Dir(dirs[0]), "torch", "lib", lib))
		if err != nil {
			t.Fatal(err)
		}
		syms, err := f.DynamicSymbols()
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range syms {
			if s.Section != elf.SHN_UNDEF && elf.ST_BIND(s.Info) != elf.STB_LOCAL {
				names = append(names, s.Name)
			}
		}
	}
	if !bytes.Equal(New(names).Bytes(), e.Bytes()) {
		t.Errorf("the installed torch exports %d names, the table holds %d", New(names).Len(), e.Len())
	}
}

func TestParseRefuses(t *testing.T) {
	good := New([]string{"a", "b", "c"}).Bytes()
	swapped := append([]byte(magic), good[len(magic)+5:len(magic)+10]...)
	swapped = append(swapped, good[len(magic):len(magic)+5]...)
	for name, b := range map[string][]byte{"empty": nil, "cut": good[:len(good)-1], "foreign": []byte("\x7fELF...."), "unsorted": swapped} {
		if _, err := Parse(b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// FuzzParse: what parses prints back to the same bytes.
func FuzzParse(f *testing.F) {
	f.Add(New([]string{"a", "b"}).Bytes())
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := Parse(b); err == nil && !bytes.Equal(e.Bytes(), b) {
			t.Errorf("%x came back as %x", b, e.Bytes())
		}
	})
}
