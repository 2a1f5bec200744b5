package fatbin_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/thox-ai/thoxbuild/abicheck/fatbin"
	"github.com/thox-ai/thoxbuild/manifests"
)

var le = binary.LittleEndian

// entry writes one entry with a payload; PTX entries carry their language
// version where machine code has the version of its own format.
func entry(kind uint16, arch uint32, major, minor uint16, flags uint64, payload int) []byte {
	b := make([]byte, 64+payload)
	le.PutUint16(b, kind)
	le.PutUint16(b[2:], 0x101)
	le.PutUint32(b[4:], 64)
	le.PutUint64(b[8:], uint64(payload))
	le.PutUint16(b[24:], minor)
	le.PutUint16(b[26:], major)
	le.PutUint32(b[28:], arch)
	le.PutUint64(b[40:], flags)
	return b
}

func container(entries ...[]byte) []byte {
	body := bytes.Join(entries, nil)
	b := le.AppendUint32(nil, 0xba55ed50)
	b = le.AppendUint16(le.AppendUint16(b, 1), 16)
	return append(le.AppendUint64(b, uint64(len(body))), body...)
}

func sample() []byte {
	b := container(entry(2, 80, 1, 8, 0x11, 40), entry(2, 90, 1, 8, 0x108011, 8), entry(1, 120, 9, 0, 0x8011, 16))
	b = append(b, make([]byte, 24)...) // padding
	return append(b, container(entry(2, 80, 1, 8, 0x11, 40), entry(2, 100, 1, 8, 0x208011, 0))...)
}

func TestRead(t *testing.T) {
	b := sample()
	got, err := fatbin.Read(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	want := []fatbin.Entry{{Arch: 80}, {Arch: 90, Suffix: "a"}, {Arch: 100, Suffix: "f"}, {Arch: 120, PTX: true, ISA: manifests.Version{Major: 9}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got)\n%s", diff)
	}
	var names []string
	for _, e := range got {
		names = append(names, e.Capability())
	}
	if diff := cmp.Diff([]string{"8.0", "9.0a", "10.0f", "12.0+PTX"}, names); diff != "" {
		t.Errorf("capabilities (-want +got)\n%s", diff)
	}
	for n := 1; n < len(b); n++ {
		if _, err := fatbin.Read(bytes.NewReader(b[:n]), int64(n)); err == nil && n > 16 && n < 16+64*3+64 {
			t.Errorf("%d of %d bytes were read without an error", n, len(b))
		}
	}
}

// FuzzRead holds that reading ends and that entries are sorted and unique.
func FuzzRead(f *testing.F) {
	f.Add(sample())
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := fatbin.Read(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		for i := 1; i < len(got); i++ {
			if got[i-1].Compare(got[i]) >= 0 {
				t.Errorf("%v before %v", got[i-1], got[i])
			}
		}
		if len(got) > len(data)/64 {
			t.Errorf("%d entries in %d bytes", len(got), len(data))
		}
	})
}
