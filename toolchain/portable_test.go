package toolchain

import (
	"errors"
	"slices"
	"testing"
)

// A script that stands for a host compiler names the entries that have to lie
// beside it; they are found again in its text.
func TestPortable(t *testing.T) {
	s, err := Open(Options{Dir: t.TempDir(), Offline: true})
	if err != nil {
		t.Fatal(err)
	}
	host := Tool{Args: []string{"/opt/thox/zig-1/zig", "c++", "-I/opt/thox/overlay-2", "-I/opt/thox/libstdcxx-3/it's/c++", "-I/opt/thox/libstdcxx-3/c++-target", "-ffile-prefix-map=/opt/thox/=thox/"}}
	virtual, err := s.hostScript(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	entry := virtual[len(VirtualRoot)+1:]
	dir, needs, err := s.Portable(entry)
	if want := []string{"zig-1", "overlay-2", "libstdcxx-3"}; err != nil || dir != s.Real(virtual) || !slices.Equal(needs, want) {
		t.Errorf("%q needs %q, want %q: %v", dir, needs, want, err)
	}
	if dir, needs, err := s.Portable("overlay-2"); err != nil || dir != s.Real("/opt/thox/overlay-2") || needs != nil {
		t.Errorf("%q %q %v", dir, needs, err)
	}
	for _, entry := range []string{"clang-cuda-0a", "cuda-installed-13.0-0a", "hipcc-installed-7.2-0a", "hipify-driver-0a", "icpx-installed-2026.0-0a"} {
		var installed *InstalledError
		if _, _, err := s.Portable(entry); !errors.As(err, &installed) {
			t.Errorf("%s: %v", entry, err)
		}
	}
}
