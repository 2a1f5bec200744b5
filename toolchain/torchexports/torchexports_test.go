package torchexports

import (
	"bytes"
	"debug/elf"
	"errors"
	"io/fs"
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

// TestCUDATables asks for each CUDA of the catalogue: one has a table of its
// own, for the others the release's one stands in.
func TestCUDATables(t *testing.T) {
	for _, v := range []string{"2.11", "2.12", "2.13", "2.14", "2.15"} {
		own := "cu130"
		if v == "2.15" {
			own = "cu132"
		}
		for _, a := range []manifests.Arch{manifests.X86_64, manifests.AArch64} {
			for _, cuda := range []string{"12.6", "13.0", "13.2"} {
				compute := manifests.Compute{Backend: manifests.CUDA, Version: manifests.MustVersion(cuda)}
				e, err := Find(manifests.MustVersion(v), compute, platform(a))
				if err != nil || e == nil {
					t.Errorf("torch %s %v %s: no table: %v", v, compute, a, err)
					continue
				}
				of := own
				if compute.String() == own {
					of = ""
				}
				if e.Of() != of || e.more.Len() < 20_000 {
					t.Errorf("torch %s %v %s: a table of %q with %d names, expected one of %q", v, compute, a, e.Of(), e.more.Len(), of)
				}
				for _, name := range []string{
					"_ZTIN3c105ErrorE",                          // of the CPU libraries
					"_ZN3c104cuda20getCurrentCUDAStreamEa",      // of libc10_cuda
					"_ZN2at4cuda26getCurrentDevicePropertiesEv", // of libtorch_cuda
				} {
					if !e.Has(name) {
						t.Errorf("torch %s %v %s: %s is missing", v, compute, a, name)
					}
				}
				if e.Has("_ZN2at4cuda11thox_nobodyEv") || e.Has("cudaMalloc") {
					t.Errorf("torch %s %v %s: holds a name that torch does not export", v, compute, a)
				}
			}
		}
	}
}

func TestFindKnowsItsLimits(t *testing.T) {
	cuda := manifests.Compute{Backend: manifests.CUDA, Version: manifests.MustVersion("13.0")}
	if e, err := Find(manifests.MustVersion("2.13"), cpu, platform(manifests.X86_64)); err != nil || e.Has("_ZN3c104cuda20getCurrentCUDAStreamEa") {
		t.Errorf("the CPU set holds names of CUDA: %v", err)
	}
	for name, compute := range map[string]manifests.Compute{"unknown release": cpu, "unknown CUDA release": cuda} {
		if e, err := Find(manifests.MustVersion("9.99"), compute, platform(manifests.X86_64)); e != nil || err != nil {
			t.Errorf("%s: got %v, %v", name, e, err)
		}
	}
	rocm := manifests.Compute{Backend: manifests.ROCm, Version: manifests.MustVersion("7.2")}
	if e, err := Find(manifests.MustVersion("2.13"), rocm, platform(manifests.X86_64)); e != nil || err != nil {
		t.Errorf("ROCm: got %v, %v", e, err)
	}
}

// TestAgainstInstalledTorch compares the tables of 2.13 with the libraries of
// an installed torch, name by name.
func TestAgainstInstalledTorch(t *testing.T) {
	dirs, _ := filepath.Glob("../../.venv/lib/python3*/site-packages/torch-2.13*.dist-info")
	if len(dirs) == 0 {
		t.Skip("no torch 2.13 in .venv")
	}
	for _, compute := range []manifests.Compute{cpu, {Backend: manifests.CUDA, Version: manifests.MustVersion("13.0")}} {
		e, err := read(FileName(manifests.MustVersion("2.13"), compute, platform(manifests.X86_64)))
		if err != nil || e == nil {
			t.Fatal(err)
		}
		var names []string
		for _, lib := range Libraries(compute.Backend, manifests.Linux) {
			f, err := elf.Open(filepath.Join(filepath.Dir(dirs[0]), "torch", "lib", lib))
			if errors.Is(err, fs.ErrNotExist) && compute.Backend == manifests.CUDA {
				t.Skip("the torch of .venv is a CPU build")
			}
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
			t.Errorf("the installed torch exports %d names, the table of %v holds %d", New(names).Len(), compute, e.Len())
		}
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

// TestMacOS holds that the tables of macOS are those of its libraries: what an
// extension of Metal calls is in them, and what torch's headers define inline
// is not.
func TestMacOS(t *testing.T) {
	darwin := manifests.Platform{Arch: manifests.AArch64, OS: manifests.Darwin}
	for _, b := range []manifests.Backend{manifests.CPU, manifests.Metal} {
		e, err := Find(manifests.MustVersion("2.13"), manifests.Compute{Backend: b}, darwin)
		if err != nil || e == nil {
			t.Fatalf("%s: %v, %v", b, e, err)
		}
		for name, want := range map[string]bool{
			"_ZN2at3mps19getCurrentMPSStreamEv":      true,
			"_ZN2at3mps9MPSStream14commandEncoderEv": true,
			"_ZNK2at3mps9MPSStream5queueEv":          false,
			"__ZN2at3mps19getCurrentMPSStreamEv":     false, // as Mach-O spells it
		} {
			if e.Has(name) != want {
				t.Errorf("%s: %s: %v, want %v", b, name, !want, want)
			}
		}
	}
	if e, err := Find(manifests.MustVersion("2.13"), manifests.Compute{Backend: manifests.Metal}, platform(manifests.AArch64)); e != nil || err != nil {
		t.Errorf("Metal on Linux: %v, %v", e, err)
	}
}
