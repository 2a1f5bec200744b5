// Package tests holds what spans rooms: import directions, the scripts a user
// would type, and the end-to-end runs with the real Python clients.
package tests

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const modulePath = "github.com/thox-ai/thoxbuild/"

// rooms are in the order in which a kernel passes through them. A room may
// import the rooms before it and never one after it.
var rooms = []string{"manifests", "matrix", "toolchain", "compile", "abicheck", "hub", "cmd"}

// TestImportDirections fails when a package imports a room to its right, when
// a leaf under internal imports a room, or when anything imports cmd.
func TestImportDirections(t *testing.T) {
	seen := map[string]bool{}
	for file, imports := range moduleImports(t) {
		from, _, _ := strings.Cut(filepath.ToSlash(file), "/")
		if from == "tests" || from == "bench" {
			continue // these look at the whole from outside
		}
		fromRank := slices.Index(rooms, from)
		if fromRank < 0 && from != "internal" {
			t.Errorf("%s: %q is not a room; add it to the order or move the file", file, from)
			continue
		}
		seen[from] = true
		for _, path := range imports {
			to, _, _ := strings.Cut(strings.TrimPrefix(path, modulePath), "/")
			switch toRank := slices.Index(rooms, to); {
			case to == "internal" || to == from:
			case from == "internal":
				t.Errorf("%s imports %s: a leaf under internal may not know a room", file, path)
			case toRank < 0:
				t.Errorf("%s imports %s, which is no room", file, path)
			case toRank > fromRank:
				t.Errorf("%s imports %s: data moves from %s to %s, not back", file, path, from, to)
			}
		}
	}
	for _, room := range rooms {
		if !seen[room] {
			t.Errorf("room %s has no Go file: the order in this test is out of date", room)
		}
	}
}

// moduleImports maps each Go file of the module to the module's own packages
// that it imports. Test files count: a test that reaches to the right couples
// rooms as surely as code does, so only external _test packages may.
func moduleImports(t *testing.T) map[string][]string {
	t.Helper()
	root := repoRoot(t)
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "build") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		if strings.HasSuffix(f.Name.Name, "_test") {
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if strings.HasPrefix(p, modulePath) {
				found[rel] = append(found[rel], p)
			} else if found[rel] == nil {
				found[rel] = []string{}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// repoRoot finds the module's root from the test's working folder.
func repoRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the working folder")
		}
		dir = up
	}
}
