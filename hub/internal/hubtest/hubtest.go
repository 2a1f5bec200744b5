// Package hubtest makes variants for the tests of this room, and starts a real
// registry for them.
package hubtest

import (
	"crypto/sha256"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/manifests"
)

// Names of two variants that the CPU backend loads under torch 2.13 and 2.12.
const (
	VariantA = "torch213-cxx11-cpu-x86_64-linux"
	VariantB = "torch212-cxx11-cpu-x86_64-linux"
)

// Sample is a variant's files: small, large, nested and empty. The package
// says who it is.
func Sample(seed string) map[string]string {
	return map[string]string{
		"__init__.py":      "WHO = " + `"` + seed + `"` + "\n",
		"_ops.py":          "import torch\n",
		"_demo.abi3.so":    strings.Repeat(seed+"\x00\x01\x02binary", 4000),
		"layers/rms.py":    "class RMSNorm: pass\n",
		"layers/empty.txt": "",
	}
}

// WriteVariant writes a variant below dir/build with a fresh digest. edit may
// change the metadata before it is written.
func WriteVariant(t testing.TB, dir, name string, version int, files map[string]string, edit func(*manifests.Metadata)) {
	t.Helper()
	v := filepath.Join(dir, "build", name)
	m := &manifests.Metadata{
		Name: "demo", ID: "_demo_cpu_1234567", Version: version, License: "MIT", PythonDepends: []string{},
		Backend:    manifests.MetadataBackend{Type: manifests.CPU},
		Provenance: &manifests.Provenance{KernelBuilder: manifests.Builder{Version: "thoxbuild test"}, Kernel: &manifests.Commit{SHA: strings.Repeat("a", 40)}},
		Digest:     &manifests.Digest{Algorithm: manifests.SHA256, Files: map[string]string{}},
	}
	if n, err := manifests.ParseVariantName(name); err == nil && n.Compute.Backend != "" {
		m.Backend.Type = n.Compute.Backend
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(os.RemoveAll(v))
	for path, content := range files {
		p := filepath.Join(v, filepath.FromSlash(path))
		check(os.MkdirAll(filepath.Dir(p), 0o755))
		check(os.WriteFile(p, []byte(content), 0o644))
		sum := sha256.Sum256([]byte(content))
		m.Digest.Files[path] = base64.StdEncoding.EncodeToString(sum[:])
	}
	if edit != nil {
		edit(m)
	}
	b, err := m.Print()
	check(err)
	check(os.WriteFile(filepath.Join(v, manifests.MetadataFile), b, 0o644))
}
