package tests

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMatrixOfDocs holds the JSON in docs/ci.md against what the commands
// print.
func TestMatrixOfDocs(t *testing.T) {
	root := repoRoot(t)
	text, err := os.ReadFile(filepath.Join(root, "docs", "ci.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	kernel := t.TempDir()
	for name, text := range map[string]string{
		"build.toml": `[general]
name = "relu"
version = 1
edition = 5
license = "apache-2.0"
backends = ["cpu"]
[torch]
src = ["torch-ext/torch_binding.cpp"]
[kernel.relu]
backend = "cpu"
depends = ["torch"]
src = ["relu.cpp"]
`, "relu.cpp": "", "torch-ext/torch_binding.cpp": "", "torch-ext/relu/__init__.py": ""} {
		file := filepath.Join(kernel, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	commands := [][]string{
		{"matrix", "--format", "github", "--variant", "torch21[23]-cxx11-cpu-x86_64-linux"},
		{"matrix", "--format", "github", "--variant", "torch21[23]-cxx11-cpu-x86_64-linux", "--shards", "2"},
	}
	if len(blocks) != len(commands) {
		t.Fatalf("docs/ci.md has %d blocks of JSON, expected %d", len(blocks), len(commands))
	}
	exe, err := exec.LookPath("thoxbuild")
	if err != nil {
		t.Fatal(err)
	}
	for i, args := range commands {
		cmd := exec.Command(exe, append(args, "-C", kernel)...)
		cmd.Env = append(os.Environ(), "THOXBUILD_STORE="+t.TempDir())
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(out), "\n") != 1 {
			t.Errorf("%v: expected one line, got %q", args, out)
		}
		var want, got any
		if err := json.Unmarshal([]byte(blocks[i][1]), &want); err != nil {
			t.Fatalf("docs/ci.md, block %d: %v", i+1, err)
		}
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-docs +printed):\n%s", args, diff)
		}
	}
	if !strings.Contains(string(text), "${{ matrix.variants }}") || !strings.Contains(string(text), "${{ matrix.runs-on }}") {
		t.Error("the workflow of docs/ci.md does not use the fields that are printed")
	}
}
