package facts

import (
	"fmt"
	"strings"
	"testing"
)

func TestTorchScope(t *testing.T) {
	for name, want := range map[string]string{
		"_ZN2at5emptyEv":                         "at",
		"_ZNK3c106SymInt5guessEv":                "c10",
		"_ZTIN3c105ErrorE":                       "c10",
		"_ZTVN3c1010TensorImplE":                 "c10",
		"_ZGVZN5torch4initEvE1x":                 "torch",
		"_ZNK2at10TensorBase8data_ptrIfEEPT_v":   "at",
		"_ZNSt6vectorIN2at6TensorESaIS1_EED1Ev":  "at",
		"_ZN6caffe28TypeMeta4itemEv":             "caffe2",
		"_ZN5torch6stable6TensorD1Ev":            "",
		"_ZN5torch10headeronly4HalfC1Ef":         "",
		"_ZNSt6vectorIN5torch6stable6TensorEE1x": "",
		"_ZN4thox2atEv":                          "", // a member named at
		"_ZNKSt6vectorIiE2atEm":                  "",
		"_Z2atv":                                 "",
		"_ZN9my_at_c102at1fEv":                   "",
		"PyInit_at":                              "",
		"_ZN2at":                                 "", // no name at all
	} {
		if got := torchScope(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestOldString(t *testing.T) {
	for name, want := range map[string]bool{
		"_ZN3c105ErrorC1ERKSs": true,
		"_ZN3c105ErrorC1ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE": false,
		"_ZN2at4SsSsEv": false,
		"_ZN2at1fESt17basic_string_viewIcSt11char_traitsIcEE": false,
	} {
		if got := oldString(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// TestHostileName holds that a name whose readable form has 2^200 parts is
// judged all the same.
func TestHostileName(t *testing.T) {
	var b strings.Builder
	b.WriteString("_ZN2at1fESt4pairIiiE")
	seq := func(n int) string {
		if n == 0 {
			return "S_"
		}
		return "S" + strings.ToUpper(fmt.Sprintf("%s_", base36(n-1)))
	}
	for i := range 200 {
		s := seq(i + 2)
		b.WriteString("St4pairI" + s + s + "E")
	}
	name := b.String()
	torchScope(name)
	oldString(name + "Ss")
	namespace(name)
}

func base36(n int) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if n < 36 {
		return digits[n : n+1]
	}
	return base36(n/36) + digits[n%36:n%36+1]
}
