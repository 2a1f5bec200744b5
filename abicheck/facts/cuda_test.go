package facts_test

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/thox-ai/thoxbuild/abicheck/elffile/elftest"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
	"github.com/thox-ai/thoxbuild/manifests"
)

// deviceCode is one fat binary: machine code for 8.0 and 9.0a, PTX 9.0 for 12.0.
func deviceCode() []byte {
	le := binary.LittleEndian
	entry := func(kind uint16, arch uint32, major uint16, flags uint64) []byte {
		b := make([]byte, 64)
		le.PutUint16(b, kind)
		le.PutUint32(b[4:], 64)
		le.PutUint16(b[26:], major)
		le.PutUint32(b[28:], arch)
		le.PutUint64(b[40:], flags)
		return b
	}
	body := append(append(entry(2, 80, 1, 0), entry(2, 90, 1, 0x100000)...), entry(1, 120, 9, 0)...)
	b := le.AppendUint32(nil, 0xba55ed50)
	b = le.AppendUint16(le.AppendUint16(b, 1), 16)
	return append(le.AppendUint64(b, uint64(len(body))), body...)
}

func TestCUDA(t *testing.T) {
	cu := func(s string) rule.Want {
		return rule.Want{Compute: manifests.Compute{Backend: manifests.CUDA, Version: manifests.MustVersion(s)}}
	}
	tests := []struct {
		name  string
		archs []string
		code  []byte
		want  rule.Want
		got   []string
	}{
		{"agrees", []string{"8.0", "9.0a", "12.0+PTX"}, deviceCode(), cu("13.0"), []string{"error CUDA-ARCHS"}}, // 12.0 itself is missing
		{"claims more", []string{"8.0", "8.6", "9.0a"}, deviceCode(), cu("13.0"), []string{"error CUDA-ARCHS", "warning CUDA-ARCHS"}},
		{"claims less", []string{"8.0"}, deviceCode(), cu("13.0"), []string{"error CUDA-ARCHS", "warning CUDA-ARCHS"}},
		{"claims nothing", nil, deviceCode(), cu("13.0"), []string{"warning CUDA-ARCHS"}},
		{"older driver", nil, deviceCode(), cu("12.6"), []string{"error CUDA-PTX", "warning CUDA-ARCHS"}},
		{"no device code", []string{"8.0"}, nil, cu("13.0"), []string{"error CUDA-ARCHS"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := elftest.Library{Symbols: []elftest.Symbol{{Name: "PyInit__k", Defined: true}}, BuildID: []byte{1}, Fatbin: tt.code}
			p := &rule.Package{Metadata: &manifests.Metadata{ID: "_k", Backend: manifests.MetadataBackend{Type: manifests.CUDA, Archs: tt.archs}}}
			if diff := cmp.Diff(tt.got, verdicts(t, l, "_k.abi3.so", tt.want, p, &rule.Options{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
