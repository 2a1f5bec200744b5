package abicheck_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/thox-ai/thoxbuild/abicheck"
	"github.com/thox-ai/thoxbuild/abicheck/elffile/elftest"
)

// TestShippedExports asks the tables that thoxbuild carries: a variant's
// undefined symbols must be what that torch release really exports.
func TestShippedExports(t *testing.T) {
	lib := elftest.Library{
		Needed: []string{"libtorch.so", "libtorch_cpu.so", "libc10.so", "libc.so.6"}, BuildID: []byte{1},
		Symbols: []elftest.Symbol{
			{Name: "PyInit__k", Defined: true},
			{Name: "_ZNK3c1010TensorImpl5sizesEv_gone"},
			{Name: "_ZN3c1015warning_handlerE_gone", Bind: 2}, // weak
			{Name: "_ZN2at4thoxEv"},
			{Name: "aoti_torch_delete_tensor_object"},
			{Name: "forgotten"},
		},
	}
	name := write(t, filepath.Join(t.TempDir(), "torch213-cxx11-cpu-x86_64-linux", "_k.abi3.so"), lib.Bytes())
	write(t, filepath.Join(filepath.Dir(name), "metadata.json"), []byte(`{"name":"k","id":"_k","version":1,"license":"MIT","python-depends":[],"backend":{"type":"cpu"}}`))
	r, err := abicheck.Check(t.Context(), []string{name}, &abicheck.Options{FactsOnly: true, Only: []string{"TORCH-UNDEF"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range r.Findings {
		got = append(got, f.Symbol)
	}
	want := []string{"_ZN2at4thoxEv", "_ZNK3c1010TensorImpl5sizesEv_gone", "forgotten"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
