package policy_test

import (
	"testing"

	"github.com/thox-ai/thoxbuild/abicheck/policy"
	"github.com/thox-ai/thoxbuild/manifests"
)

func TestManylinux(t *testing.T) {
	tests := []struct {
		policy    string
		arch      manifests.Arch
		version   string
		ok, known bool
		top       string
	}{
		{"manylinux_2_28", manifests.X86_64, "GLIBC_2.28", true, true, "GLIBC_2.28"},
		{"manylinux_2_28", manifests.X86_64, "GLIBC_2.4", true, true, "GLIBC_2.28"},
		{"manylinux_2_28", manifests.X86_64, "GLIBC_2.29", false, true, "GLIBC_2.28"},
		{"manylinux_2_28", manifests.AArch64, "GLIBC_2.4", false, true, "GLIBC_2.28"},
		{"manylinux_2_28", manifests.X86_64, "GLIBCXX_3.4.24", true, true, "GLIBCXX_3.4.24"},
		{"manylinux_2_28", manifests.X86_64, "GLIBCXX_3.4.25", false, true, "GLIBCXX_3.4.24"},
		{"manylinux_2_28", manifests.X86_64, "CXXABI_TM_1", true, true, "CXXABI_1.3.11"},
		{"manylinux_2_28", manifests.X86_64, "CXXABI_FLOAT128", true, true, "CXXABI_1.3.11"},
		{"manylinux_2_28", manifests.AArch64, "CXXABI_FLOAT128", false, true, "CXXABI_1.3.11"},
		{"manylinux_2_28", manifests.X86_64, "GCC_12.0.0", false, true, "GCC_7.0.0"},
		{"manylinux_2_28", manifests.X86_64, "libcudart.so.13", false, false, ""},
		{"manylinux2014", manifests.X86_64, "GLIBC_2.17", true, true, "GLIBC_2.17"},
		{"manylinux_2_31", manifests.X86_64, "GLIBC_2.31", true, true, "GLIBC_2.31"},
		{"manylinux_2_34", manifests.X86_64, "GLIBC_2.34", true, true, "GLIBC_2.34"},
		{"manylinux_2_39", manifests.X86_64, "GLIBC_2.39", true, true, "GLIBC_2.39"},
		{"manylinux_2_39", manifests.X86_64, "GLIBC_2.40", false, true, "GLIBC_2.39"},
		{"manylinux_2_30", manifests.X86_64, "GLIBC_2.29", false, true, "GLIBC_2.28"},
	}
	for _, tt := range tests {
		p, err := policy.FindManylinux(tt.policy)
		if err != nil {
			t.Fatal(err)
		}
		ok, known, top := p.Allows(tt.arch, tt.version)
		if ok != tt.ok || known != tt.known || top != tt.top {
			t.Errorf("%s on %s: %s is allowed %v, known %v, top %s; want %v, %v, %s", tt.policy, tt.arch, tt.version, ok, known, top, tt.ok, tt.known, tt.top)
		}
	}
	for _, bad := range []string{"", "manylinux", "manylinux_2_1", "musllinux_1_2", "2_28"} {
		if p, err := policy.FindManylinux(bad); err == nil {
			t.Errorf("%q gave %s", bad, p.Name)
		}
	}
	p, _ := policy.FindManylinux("manylinux_2_39")
	if !p.Library("libc.so.6") || p.Library("libpython3.12.so.1.0") || !p.Private("libz.so.1", "inflate_table") || p.Private("libz.so.1", "inflate") {
		t.Error("libraries and private symbols of manylinux_2_39 are wrong")
	}
}

func TestABI3(t *testing.T) {
	tests := []struct {
		name  string
		os    manifests.OS
		ok    bool
		added string
	}{
		{"PyModule_Create2", manifests.Linux, true, "3.2"},
		{"PyType_GetName", manifests.Linux, true, "3.11"},
		{"Py_IncRef", manifests.Linux, true, "3.2"},
		{"_PyObject_GetDictPtr", manifests.Linux, false, ""},
		{"_Py_RefTotal", manifests.Linux, false, ""},
		{"PyErr_SetFromWindowsErr", manifests.Linux, false, ""},
		{"PyErr_SetFromWindowsErr", manifests.Windows, true, "3.7"},
	}
	for _, tt := range tests {
		added, ok := policy.ABI3(tt.name, tt.os)
		if ok != tt.ok || ok && added.String() != tt.added {
			t.Errorf("%s on %s: %v, %v; want %v, %s", tt.name, tt.os, added, ok, tt.ok, tt.added)
		}
	}
	if v := policy.ABI3Newest(); v.Compare(manifests.MustVersion("3.15")) != 0 {
		t.Errorf("the table ends with %v", v)
	}
}

func TestShims(t *testing.T) {
	for name, want := range map[string]manifests.Version{
		"torch_call_dispatcher":    manifests.MustVersion("2.10"),
		"torch_from_blob":          manifests.MustVersion("2.11"),
		"torch_new_stable_ivalue":  manifests.MustVersion("2.13"),
		"aoti_torch_empty_strided": {},
	} {
		if got := policy.ShimAdded(name); got != want {
			t.Errorf("%s: since %v, want %v", name, got, want)
		}
	}
}
