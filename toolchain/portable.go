package toolchain

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// InstalledError is an entry of the store that leads to a compiler which is
// installed on this machine.
type InstalledError struct{ Entry string }

// Error implements error.
func (e *InstalledError) Error() string {
	return fmt.Sprintf("%s leads to what is installed on this machine", e.Entry)
}

// Portable is what another machine of the same kind needs to use an entry, named
// as the first part of a path below VirtualRoot: its real folder, and the other
// entries that its programs run. The error is an InstalledError for one that is
// of use here only.
func (s *Store) Portable(entry string) (dir string, needs []string, err error) {
	for _, prefix := range [...]string{"clang-cuda-", "hipify-driver-"} {
		if strings.HasPrefix(entry, prefix) {
			return "", nil, &InstalledError{entry}
		}
	}
	if strings.Contains(entry, "-installed-") {
		return "", nil, &InstalledError{entry}
	}
	dir = filepath.Join(s.dir, "tools", entry)
	if strings.HasPrefix(entry, hostScriptPrefix) {
		text, err := os.ReadFile(filepath.Join(dir, hostScriptName))
		if err != nil {
			return "", nil, err
		}
		needs = hostScriptNeeds(string(text))
	}
	return dir, needs, nil
}
