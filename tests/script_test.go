package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/thox-ai/thoxbuild/cmd/thoxbuild/command"
)

// TestMain lets the scripts run thoxbuild as a command of their own process
// group: the test binary under that name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"thoxbuild": func() { os.Exit(command.Main(context.Background(), os.Args[1:], command.OSStreams())) },
	})
}

// TestScripts runs what a person would type: tests/script/*.txtar. Each script
// starts in a folder of its own with an empty store and home.
func TestScripts(t *testing.T) {
	root := repoRoot(t)
	testscript.Run(t, testscript.Params{
		Dir:  "script",
		Cmds: hubCommands(),
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, "cache"))
			e.Setenv("THOXBUILD_STORE", filepath.Join(e.WorkDir, "store"))
			e.Setenv("ROOT", root)
			// The compilers that an earlier build fetched, with an empty
			// cache, for the scripts that compile.
			e.Setenv("TREE_STORE", filepath.Join(e.WorkDir, "treestore"))
			return linkStore(filepath.Join(root, ".cache", "store"), filepath.Join(e.WorkDir, "treestore"))
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root":
				return os.Geteuid() == 0, nil
			case "store": // compilers are there, so a build needs no network
				zig, err := filepath.Glob(filepath.Join(root, ".cache", "store", "tools", "zig-0*"))
				return len(zig) > 0, err
			case "cross": // and those of aarch64
				headers, err := filepath.Glob(filepath.Join(root, ".cache", "store", "tools", "torch-include-2.13.*-aarch64-[0-9a-f][0-9a-f][0-9a-f]*"))
				return len(headers) > 0, err
			case "hipify": // and torch's converter of CUDA sources
				hipify, err := filepath.Glob(filepath.Join(root, ".cache", "store", "tools", "hipify-2.13.*"))
				return len(hipify) > 0, err
			case "mac": // and torch's headers for macOS
				torch, err := filepath.Glob(filepath.Join(root, ".cache", "store", "tools", "torch-include-2.13.*-aarch64-darwin-*"))
				return len(torch) > 0, err
			case "torch": // the torch that the tests load kernels with
				found, err := filepath.Glob(filepath.Join(root, ".venv", "lib", "python3*", "site-packages", "torch", "version.py"))
				return len(found) > 0, err
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

// linkStore makes a store that shares another one's tools and nothing else.
// Each tool is a link of its own: what is made here stays here, and a prune
// takes links.
func linkStore(from, to string) error {
	if err := os.MkdirAll(filepath.Join(to, "locks"), 0o755); err != nil {
		return err
	}
	pins, err := os.ReadFile(filepath.Join(from, "locks", "pins.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // nothing was fetched yet; the scripts that need it are skipped
	}
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(to, "locks", "pins.json"), pins, 0o644); err != nil {
		return err
	}
	tools, err := os.ReadDir(filepath.Join(from, "tools"))
	if err = errors.Join(err, os.Mkdir(filepath.Join(to, "tools"), 0o755)); err != nil {
		return err
	}
	for _, e := range tools {
		if err := os.Symlink(filepath.Join(from, "tools", e.Name()), filepath.Join(to, "tools", e.Name())); err != nil {
			return err
		}
	}
	return nil
}
