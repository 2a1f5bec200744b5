package isa

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// TestWheels judges released wheels that dispatch by CPU. The index is pip's.
func TestWheels(t *testing.T) {
	if os.Getenv("THOXBUILD_TEST_NETWORK") == "" {
		t.Skip("set THOXBUILD_TEST_NETWORK=1 to download wheels and judge them")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 with pip to download wheels with")
	}
	for _, c := range []struct{ pkg, want, baseline string }{
		{"faiss-cpu==1.14.2", "ISA-LOAD", "x86-64-v2"}, // an AVX2 initialiser merged by LTO: dlopen dies
		{"faiss-cpu==1.15.1", "", "x86-64-v2"},         // the same, mended
		{"numpy==2.4.6", "", "x86-64-v2"},
		{"pyarrow", "", "x86-64-v2"},
		{"opencv-python-headless", "", "x86-64-v2"},
		{"scipy", "", "x86-64-v2"},
		{"simsimd", "", "x86-64-v2"},
		{"pillow", "", "x86-64-v2"},
		{"blosc2", "", "x86-64-v2"},
		{"polars-runtime-32", "ISA-LOAD", "x86-64-v2"}, // compiled for AVX2 as a whole; its authors ship another for older processors
		{"polars-runtime-32", "", "x86-64-v3"},
		{"sentencepiece", "", "x86-64-v2"},
		{"onnxruntime", "", "x86-64-v2"},
	} {
		t.Run(c.pkg+" "+c.baseline, func(t *testing.T) {
			dir := t.TempDir()
			out, err := exec.CommandContext(t.Context(), python, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:",
				"--disable-pip-version-check", "-d", dir, c.pkg).CombinedOutput()
			if err != nil {
				t.Skipf("pip download %s: %v\n%s", c.pkg, err, out)
			}
			wheels, _ := filepath.Glob(filepath.Join(dir, "*.whl"))
			if len(wheels) != 1 {
				t.Fatalf("%d wheels", len(wheels))
			}
			z, err := zip.OpenReader(wheels[0])
			if err != nil {
				t.Fatal(err)
			}
			defer z.Close()
			errs, files := map[string]bool{}, 0
			for _, m := range z.File {
				if !strings.Contains(filepath.Base(m.Name), ".so") {
					continue
				}
				r, err := m.Open()
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(r)
				r.Close()
				if err != nil || !bytes.HasPrefix(b, []byte("\x7fELF")) {
					continue
				}
				f, err := elffile.New(bytes.NewReader(b), int64(len(b)))
				if err != nil {
					t.Fatalf("%s: %v", m.Name, err)
				}
				s := &rule.Subject{File: m.Name, Data: bytes.NewReader(b), Size: int64(len(b)), ELF: f}
				s.Want.Baseline = c.baseline
				got, err := checkLibrary(t.Context(), s, &rule.Options{})
				if err != nil {
					t.Fatalf("%s: %v", m.Name, err)
				}
				files++
				for _, x := range got {
					if x.Severity == rule.Error {
						errs[x.ID] = true
						t.Logf("%s: %s", m.Name, explainAll([]rule.Finding{x}))
					}
				}
			}
			var ids []string
			for id := range errs {
				ids = append(ids, id)
			}
			if got := strings.Join(ids, " "); got != c.want {
				t.Errorf("%s, %d files: got %q, want %q", filepath.Base(wheels[0]), files, got, c.want)
			}
			t.Logf("%s: %d files", filepath.Base(wheels[0]), files)
		})
	}
}
