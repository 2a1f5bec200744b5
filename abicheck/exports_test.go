package abicheck_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/thox-ai/thoxbuild/abicheck"
	"github.com/thox-ai/thoxbuild/abicheck/elffile/elftest"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
	"github.com/thox-ai/thoxbuild/manifests"
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

// TestShippedCUDAExports: the CUDA libraries of the release count as well, for
// the build that has a table and, less certainly, for others.
func TestShippedCUDAExports(t *testing.T) {
	lib := elftest.Library{
		Needed: []string{"libtorch.so", "libtorch_cpu.so", "libtorch_cuda.so", "libc10.so", "libc10_cuda.so", "libcudart.so.13", "libc.so.6"}, BuildID: []byte{1},
		Symbols: []elftest.Symbol{
			{Name: "_ZN2at4cuda26getCurrentDevicePropertiesEv"},
			{Name: "_ZN3c104cuda20getCurrentCUDAStreamEa"},
			{Name: "_ZN3c104cuda4goneEv"},
			{Name: "_ZTIN3c105ErrorE"},
			{Name: "forgotten"},
		},
	}
	torch := manifests.MustVersion("2.13")
	for _, c := range []struct {
		folder     string
		options    abicheck.Options
		confidence rule.Confidence
	}{
		{"torch213-cxx11-cu130-x86_64-linux", abicheck.Options{}, rule.Certain},
		{"torch213-cxx11-cu126-x86_64-linux", abicheck.Options{}, rule.Likely},
		{"a folder", abicheck.Options{Torch: &torch, Compute: manifests.Compute{Backend: manifests.CUDA, Version: manifests.MustVersion("13.0")}}, rule.Certain},
		{"any CUDA", abicheck.Options{Torch: &torch}, rule.Likely},
	} {
		name := write(t, filepath.Join(t.TempDir(), c.folder, "_k.abi3.so"), lib.Bytes())
		write(t, filepath.Join(filepath.Dir(name), "metadata.json"), []byte(`{"name":"k","id":"_k","version":1,"license":"MIT","python-depends":[],"backend":{"type":"cuda","archs":["9.0"]}}`))
		o := c.options
		o.FactsOnly, o.Only = true, []string{"TORCH-UNDEF"}
		r, err := abicheck.Check(t.Context(), []string{name}, &o)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range r.Findings {
			got = append(got, f.Symbol)
			if f.Confidence != c.confidence || (len(f.Detail) > 0) != (c.confidence == rule.Likely) {
				t.Errorf("%s: %s is %s with %q, expected %s", c.folder, f.Symbol, f.Confidence, f.Detail, c.confidence)
			}
		}
		if diff := cmp.Diff([]string{"_ZN3c104cuda4goneEv", "forgotten"}, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.folder, diff)
		}
	}
}
