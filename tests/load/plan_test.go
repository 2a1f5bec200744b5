package load

import (
	"bytes"
	"debug/elf"
	"slices"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/abicheck/elffile/elftest"
)

type set []string

func (s set) Has(name string) bool { return slices.Contains(s, name) }

// TestPlan: a stand-in defines what its library needs and the release exports,
// and nothing else.
func TestPlan(t *testing.T) {
	lib := elftest.Library{
		Needed: []string{"libc10.so", "libtorch_cpu.so", "libstdc++.so.6"},
		Symbols: []elftest.Symbol{
			{Name: "PyInit__k", Defined: true},
			{Name: "_ZN5torch7LibraryC1Ev"}, {Name: "_ZTIN3c105ErrorE"}, {Name: "_ZN3c103anyEv"},
			{Name: "_ZN2at4goneEv"}, {Name: "PyModule_Create2"}, {Name: "GOMP_parallel"},
			{Name: "forgotten"}, {Name: "_ITM_weak", Bind: elf.STB_WEAK},
		},
	}
	f, err := elf.NewFile(bytes.NewReader(lib.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	stubs, missing, err := Plan(f, set{"_ZN5torch7LibraryC1Ev", "_ZTIN3c105ErrorE", "_ZN3c103anyEv", "_ZN3c106unusedEv"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"_ZN2at4goneEv", "forgotten"}; !slices.Equal(missing, want) {
		t.Errorf("missing %q, expected %q", missing, want)
	}
	got := map[string][]string{}
	for _, s := range stubs {
		got[s.Soname] = s.Names
	}
	for soname, want := range map[string][]string{
		python: {"PyModule_Create2"}, gomp: {"GOMP_parallel"}, "libtorch_cpu.so": nil,
		"libc10.so": {"_ZN5torch7LibraryC1Ev", "_ZTIN3c105ErrorE", "_ZN3c103anyEv"},
	} {
		if names, ok := got[soname]; !ok || !slices.Equal(names, want) {
			t.Errorf("%s defines %q (%v), expected %q", soname, names, ok, want)
		}
	}
	if len(got) != 4 {
		t.Errorf("stand-ins %v, expected four", got)
	}
	if _, missing, _ = Plan(f, set{}); len(missing) != 5 {
		t.Errorf("without any exports %q are missing, expected 5", missing)
	}
}

func TestSource(t *testing.T) {
	const parse = "_ZN5torch3jit11parseSchemaERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEb"
	s := Stub{Names: []string{"_ZN3c1019UndefinedTensorImpl10_singletonE", "_ZTVN3c105ErrorE", "_ZNK3c1010TensorImpl5sizesEv", parse,
		"aoti_torch_delete_tensor_object", "aoti_torch_library_def", "_ZN3c106detail19maybe_wrap_dim_slowIlEET_S2_S2_b", "PyModule_Create2", "PyExc_ValueError"}}
	text := s.Source()
	for _, want := range []string{"char s0[4096]", "char s1[4096]", "void* s2(void* a)", "int s4()", "int s5(void*, const char* s)", "void* s6(void* a)", "void* s7()", "char s8[4096]"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, parse) || !strings.Contains(s.ParserSource(), "Zeros<sizeof(c10::FunctionSchema)> p3(const std::string& s)") {
		t.Errorf("the parser is not made with torch's headers:\n%s", s.ParserSource())
	}
}
