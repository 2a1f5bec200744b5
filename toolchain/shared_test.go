//go:build unix

package toolchain

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A group may share a store: who may use it is for the umask to say, but what
// is in an entry stays its maker's.
func TestUmaskDecides(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	s, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	if _, err := s.entry(t.Context(), "a-1-2", func(string) error {
		for name, want := range map[string]os.FileMode{"unsettled": 0o777, "unsettled/a-1-2": 0o666} {
			if fi, err := os.Stat(filepath.Join(dir, name)); s.bootID() != "" && (err != nil || fi.Mode().Perm() != want) {
				t.Errorf("%s: %v, %v, expected %v", name, fi, err, want)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"tools": 0o777, "tmp": 0o777, "locks": 0o777, "locks/a-1-2": 0o666, "tools/a-1-2": 0o755} {
		fi, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		} else if fi.Mode().Perm() != want {
			t.Errorf("%s: %v, expected %v", name, fi.Mode().Perm(), want)
		}
	}
}
