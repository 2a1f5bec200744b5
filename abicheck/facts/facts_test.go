package facts_test

import (
	"bytes"
	"debug/elf"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
	"github.com/thox-ai/thoxbuild/abicheck/elffile/elftest"
	"github.com/thox-ai/thoxbuild/abicheck/facts"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
	"github.com/thox-ai/thoxbuild/manifests"
)

// names is a set of exports.
type names []string

func (n names) Has(s string) bool { return slices.Contains(n, s) }

// verdicts runs every pass on a library and lists "severity ID" of each
// finding, once.
func verdicts(t *testing.T, l elftest.Library, name string, w rule.Want, p *rule.Package, o *rule.Options) []string {
	t.Helper()
	b := l.Bytes()
	f, err := elffile.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	s := &rule.Subject{File: "x/" + name, Name: name, Data: bytes.NewReader(b), Size: int64(len(b)), ELF: f, Want: w, Package: p}
	var got []string
	for _, p := range facts.Passes() {
		found, err := p.Run(t.Context(), s, o)
		if err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		for _, f := range found {
			if f.Message == "" || f.Fix == "" || f.File == "" {
				t.Errorf("%s: finding without a message, fix or file: %+v", f.ID, f)
			}
			if !slices.ContainsFunc(p.Rules, func(r rule.Info) bool { return r.ID == f.ID }) {
				t.Errorf("pass %s breaks rule %s, which it does not announce", p.Name, f.ID)
			}
			got = append(got, fmt.Sprintf("%v %s", f.Severity, f.ID))
		}
	}
	slices.Sort(got)
	return slices.Compact(got)
}

// module is a clean extension module; each case spoils one thing.
func module() elftest.Library {
	return elftest.Library{
		Needed: []string{"libc10.so", "libtorch_cpu.so", "libstdc++.so.6", "libc.so.6"},
		Symbols: []elftest.Symbol{
			{Name: "PyInit__k", Defined: true},
			{Name: "PyModule_Create2"},
			{Name: "memcpy", Version: "GLIBC_2.14", Library: "libc.so.6"},
			{Name: "_ZN3c105ErrorD1Ev"},
		},
		BuildID: []byte{1},
	}
}

func with(f func(*elftest.Library)) elftest.Library {
	l := module()
	f(&l)
	return l
}

func undefined(names ...string) elftest.Library {
	return with(func(l *elftest.Library) {
		for _, n := range names {
			l.Symbols = append(l.Symbols, elftest.Symbol{Name: n})
		}
	})
}

func versioned(name, version, lib string) elftest.Library {
	return with(func(l *elftest.Library) {
		l.Symbols = append(l.Symbols, elftest.Symbol{Name: name, Version: version, Library: lib})
	})
}

func TestVerdicts(t *testing.T) {
	v213, v210 := manifests.MustVersion("2.13"), manifests.MustVersion("2.10")
	torch := rule.Want{Manylinux: "manylinux_2_28", PythonABI: manifests.MustVersion("3.9"), Torch: &v213, Platform: manifests.Platform{Arch: manifests.X86_64, OS: manifests.Linux}}
	stable := torch
	stable.Torch, stable.StableABI = nil, &v210
	exec := elf.PF_R | elf.PF_W | elf.PF_X
	kernel := &rule.Package{Libraries: map[string]bool{"libbeside.so": true}, Metadata: &manifests.Metadata{ID: "_k", Backend: manifests.MetadataBackend{Type: manifests.CPU}}}
	tests := []struct {
		name string
		lib  elftest.Library
		want rule.Want
		got  []string
	}{
		{"clean", module(), torch, nil},
		{"newer glibc", versioned("pthread_create", "GLIBC_2.34", "libc.so.6"), torch, []string{"error MANYLINUX"}},
		{"2.4 is older than 2.28", versioned("__stack_chk_fail", "GLIBC_2.4", "libc.so.6"), torch, nil},
		{"newer libstdc++", versioned("_ZNSt3x", "GLIBCXX_3.4.32", "libstdc++.so.6"), torch, []string{"error MANYLINUX"}},
		{"a name that is no version, allowed", versioned("_ZTIg", "CXXABI_FLOAT128", "libstdc++.so.6"), torch, nil},
		{"a name that is no version", versioned("__libc_x", "GLIBC_PRIVATE", "libc.so.6"), torch, []string{"error MANYLINUX"}},
		{"a soname is no version", with(func(l *elftest.Library) {
			l.Needed = append(l.Needed, "libcudart.so.13")
			l.Symbols = append(l.Symbols, elftest.Symbol{Name: "cudaMalloc", Version: "libcudart.so.13", Library: "libcudart.so.13"})
		}), torch, nil},
		{"a version without a symbol", with(func(l *elftest.Library) {
			l.Needs = []elftest.Need{{Library: "libc.so.6", Version: "GLIBC_ABI_DT_RELR"}}
		}), torch, []string{"error MANYLINUX"}},
		{"newer policy", versioned("pthread_create", "GLIBC_2.34", "libc.so.6"), rule.Want{Manylinux: "manylinux_2_34"}, nil},
		{"between two policies", versioned("f", "GLIBC_2.33", "libc.so.6"), rule.Want{Manylinux: "manylinux_2_32"}, []string{"error MANYLINUX"}},
		{"private symbol", with(func(l *elftest.Library) {
			l.Needed = append(l.Needed, "libz.so.1")
			l.Symbols = append(l.Symbols, elftest.Symbol{Name: "inflate_table"})
		}), rule.Want{Manylinux: "manylinux_2_28"}, []string{"error PRIVATE-SYMBOL"}},
		{"private symbol, weak", with(func(l *elftest.Library) {
			l.Needed = append(l.Needed, "libz.so.1")
			l.Symbols = append(l.Symbols, elftest.Symbol{Name: "inflate_table", Bind: elf.STB_WEAK})
		}), rule.Want{Manylinux: "manylinux_2_28"}, nil},
		{"a version that may be missing", with(func(l *elftest.Library) {
			l.Needs = []elftest.Need{{Library: "libc.so.6", Version: "GLIBC_2.34", Weak: true}}
		}), torch, []string{"note MANYLINUX"}},
		{"a library nobody has", with(func(l *elftest.Library) { l.Needed = append(l.Needed, "libfoo.so.1") }), torch, []string{"error NEEDED"}},
		{"a library beside it", with(func(l *elftest.Library) { l.Needed = append(l.Needed, "libbeside.so") }), torch, nil},
		{"libpython", with(func(l *elftest.Library) { l.Needed = append(l.Needed, "libpython3.12.so.1.0") }), torch, []string{"error NEEDED"}},
		{"two OpenMP runtimes", with(func(l *elftest.Library) { l.Needed = append(l.Needed, "libgomp.so.1", "libiomp5.so") }), rule.Want{}, []string{"error OMP"}},
		{"abi3: newer name", undefined("PyType_GetName"), torch, []string{"error ABI3"}},
		{"abi3: private name", undefined("_PyObject_GetDictPtr"), torch, []string{"error ABI3"}},
		{"abi3: only in debug builds", undefined("_Py_RefTotal"), torch, []string{"error ABI3"}},
		{"abi3: its own helper", with(func(l *elftest.Library) {
			l.Symbols = append(l.Symbols, elftest.Symbol{Name: "_Py_XDECREF", Defined: true, Local: true})
		}), torch, nil},
		{"no init function", with(func(l *elftest.Library) { l.Symbols[0].Name = "PyInit__other" }), torch, []string{"error PYINIT"}},
		{"stable ABI: method", undefined("_ZN2at6Tensor4itemEv"), stable, []string{"error TORCH-STABLE"}},
		{"stable ABI: typeinfo", undefined("_ZTIN3c105ErrorE"), stable, []string{"error TORCH-STABLE"}},
		{"stable ABI: vtable", undefined("_ZTVN3c1010TensorImplE"), stable, []string{"error TORCH-STABLE"}},
		{"stable ABI: guard in a function", undefined("_ZGVZN2at4initEvE4once"), stable, []string{"error TORCH-STABLE"}},
		{"stable ABI: template, whose text starts with its return type", undefined("_ZNK2at10TensorBase8data_ptrIfEEPT_v"), stable, []string{"error TORCH-STABLE"}},
		{"stable ABI: newer shim", undefined("torch_new_stable_ivalue"), stable, []string{"error TORCH-STABLE"}},
		{"torch: not exported", undefined("_ZN2at4goneEv"), torch, []string{"error TORCH-UNDEF"}},
		{"torch: forgotten source", undefined("launch_kernel"), torch, []string{"error TORCH-UNDEF"}},
		{"torch: weak", with(func(l *elftest.Library) {
			l.Symbols = append(l.Symbols, elftest.Symbol{Name: "_ZN2at4goneEv", Bind: elf.STB_WEAK})
		}), torch, nil},
		{"torch: unversioned std name", undefined("_ZNSt11logic_errorC1EPKc"), torch, nil},
		{"torch: old string", undefined("_ZN3c105ErrorC1ERKSs"), torch, []string{"error CXX11-ABI"}},
		{"rpath absolute", with(func(l *elftest.Library) { l.Runpath = "$ORIGIN:/home/me/torch/lib" }), torch, []string{"error RPATH"}},
		{"rpath empty element", with(func(l *elftest.Library) { l.Runpath = "$ORIGIN::" }), torch, []string{"error RPATH"}},
		{"rpath relative", with(func(l *elftest.Library) { l.Runpath = "x.libs" }), torch, []string{"error RPATH"}},
		{"rpath of the old kind", with(func(l *elftest.Library) { l.Rpath = "$ORIGIN" }), torch, []string{"warning RPATH"}},
		{"interpreter", with(func(l *elftest.Library) { l.Interp = true }), torch, []string{"error INTERP"}},
		{"executable stack", with(func(l *elftest.Library) { l.Stack = &exec }), torch, []string{"error EXECSTACK"}},
		{"no word about the stack", with(func(l *elftest.Library) { l.NoStack = true }), torch, []string{"error EXECSTACK"}},
		{"text relocations", with(func(l *elftest.Library) { l.TextRel = true }), torch, []string{"error TEXTREL"}},
		{"writable code", with(func(l *elftest.Library) { l.LoadFlags = elf.PF_R | elf.PF_W | elf.PF_X }), torch, []string{"error WX"}},
		{"no relro", with(func(l *elftest.Library) { l.NoRelro = true }), torch, []string{"warning RELRO"}},
		{"lazy", with(func(l *elftest.Library) { l.Lazy = true }), torch, []string{"note RELRO"}},
		{"static tls", with(func(l *elftest.Library) { l.StaticTLS = true }), torch, []string{"warning STATIC-TLS"}},
		{"aarch64 with small pages", with(func(l *elftest.Library) { l.Machine, l.Align = elf.EM_AARCH64, 0x1000 }), rule.Want{}, []string{"error ALIGN"}},
		{"aarch64", with(func(l *elftest.Library) { l.Machine = elf.EM_AARCH64 }), rule.Want{}, nil},
		{"another processor", with(func(l *elftest.Library) { l.Machine, l.Symbols = elf.EM_AARCH64, l.Symbols[:1] }), torch, []string{"error PLATFORM"}},
		{"unique symbol", with(func(l *elftest.Library) {
			l.Symbols = append(l.Symbols, elftest.Symbol{Name: "_ZZ1fvE1x", Defined: true, Bind: elf.STB_LOOS})
		}), torch, []string{"warning UNIQUE"}},
		{"exports", with(func(l *elftest.Library) {
			l.Symbols = append(l.Symbols, elftest.Symbol{Name: "launch", Defined: true}, elftest.Symbol{Name: "quiet", Defined: true, Vis: elf.STV_HIDDEN})
		}), torch, []string{"warning EXPORTS"}},
		{"declared export", with(func(l *elftest.Library) {
			l.Symbols = append(l.Symbols, elftest.Symbol{Name: "thox_entry", Defined: true})
		}), torch, nil},
		{"path of the build machine", with(func(l *elftest.Library) { l.Data = []byte("\x00/home/me/src/k.cpp\x00") }), torch, []string{"warning PATHS"}},
		{"a path that is nobody's", with(func(l *elftest.Library) { l.Data = []byte("\x00/tmp/x\x00/dev/shm/a/b\x00src/home/a/b\x00") }), torch, nil},
		{"no build id", with(func(l *elftest.Library) { l.BuildID = nil }), torch, []string{"note BUILDID"}},
	}
	exports := names{"_ZN3c105ErrorD1Ev"}
	o := &rule.Options{
		Exports: []string{"thox_entry"},
		TorchExports: func(v manifests.Version, _ manifests.Compute, _ manifests.Platform) (rule.SymbolSet, error) {
			return exports, nil
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want.StableABI != nil { // the clean module itself uses c10
				tt.lib.Symbols = slices.DeleteFunc(slices.Clone(tt.lib.Symbols), func(s elftest.Symbol) bool { return s.Name == "_ZN3c105ErrorD1Ev" })
			}
			// Without section headers, as strip -s and sstrip leave it, the
			// verdict must be the same.
			for _, bare := range []bool{false, true} {
				tt.lib.NoSections = bare
				got := verdicts(t, tt.lib, "_k.abi3.so", tt.want, kernel, o)
				if diff := cmp.Diff(tt.got, got); diff != "" {
					t.Errorf("without section headers: %v (-want +got)\n%s", bare, diff)
				}
			}
		})
	}
}

// TestStableAllowed holds what the stable ABI may use.
func TestStableAllowed(t *testing.T) {
	v := manifests.MustVersion("2.10")
	w := rule.Want{StableABI: &v}
	l := elftest.Library{Needed: []string{"libtorch.so"}, Symbols: []elftest.Symbol{
		{Name: "PyInit__k", Defined: true},
		{Name: "aoti_torch_empty_strided"},
		{Name: "torch_call_dispatcher"},
		{Name: "_ZN5torch6stable6TensorD1Ev"},
		{Name: "_ZN5torch10headeronly4HalfC1Ef"},
		{Name: "_ZNSt6vectorIfSaIfEED1Ev"},
		{Name: "_Z5at_c10v"},
	}, BuildID: []byte{1}}
	if got := verdicts(t, l, "_k.abi3.so", w, nil, &rule.Options{}); len(got) != 0 {
		t.Errorf("got %v, want nothing", got)
	}
}

// TestManyFindings holds that a file with very many faults gives a bounded
// report that says so.
func TestManyFindings(t *testing.T) {
	l := module()
	for i := range 1000 {
		l.Symbols = append(l.Symbols, elftest.Symbol{Name: fmt.Sprintf("f%d", i), Version: "GLIBC_2.99", Library: "libc.so.6"})
	}
	b := l.Bytes()
	f, err := elffile.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	s := &rule.Subject{File: "x", Name: "x.so", ELF: f, Want: rule.Want{Manylinux: "manylinux_2_28"}}
	found, err := facts.Passes()[0].Run(t.Context(), s, &rule.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 200 {
		t.Errorf("%d findings, want 200", len(found))
	}
	if last := found[len(found)-1].Detail; len(last) == 0 || !strings.Contains(last[len(last)-1], "800 more") {
		t.Errorf("the last finding does not count the rest: %v", last)
	}
}

// TestCorruptLibraries runs every pass on libraries with bytes overwritten:
// errors are welcome, panics are not.
func TestCorruptLibraries(t *testing.T) {
	l := module()
	l.Data, l.Fatbin = []byte("\x00/home/me/src/k.cpp\x00"), deviceCode()
	whole := l.Bytes()
	v := manifests.MustVersion("2.13")
	w := rule.Want{Manylinux: "manylinux_2_28", PythonABI: manifests.MustVersion("3.9"), Torch: &v}
	read := 0
	for at := 0; at+4 <= len(whole); at += 2 {
		for _, v := range []byte{0xff, 0x7f, 0x01} {
			b := bytes.Clone(whole)
			copy(b[at:], []byte{v, v, v, v})
			f, err := elffile.New(bytes.NewReader(b), int64(len(b)))
			if err != nil {
				continue
			}
			read++
			s := &rule.Subject{File: "_k.abi3.so", Name: "_k.abi3.so", Data: bytes.NewReader(b), Size: int64(len(b)), ELF: f, Want: w}
			for _, p := range facts.Passes() {
				p.Run(t.Context(), s, &rule.Options{})
			}
		}
	}
	if read < 1000 {
		t.Errorf("only %d corrupted files could be opened; the test proves little", read)
	}
}
