package action

import (
	"fmt"
	"path"
	"strings"
)

// File is one file of an action's input tree.
type File struct {
	// Path is where the command finds it: relative to the working directory,
	// slash-separated, clean, and inside it.
	Path   string
	Digest Digest
	// Exec marks a program.
	Exec bool
}

// checkPath reports why p may not be part of an input tree or an output list.
// The protocol forbids the same, and a path that left the tree would let a
// manifest write anywhere.
func checkPath(p string) error {
	switch {
	case p == "":
		return fmt.Errorf("empty path")
	case strings.ContainsAny(p, "\\\x00"):
		return fmt.Errorf("path %q: backslashes and NUL are not allowed", p)
	case path.IsAbs(p) || path.Clean(p) != p || p == "." || p == ".." || strings.HasPrefix(p, "../"):
		return fmt.Errorf("path %q: expected a clean relative path inside the tree", p)
	}
	return nil
}
