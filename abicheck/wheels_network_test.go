package abicheck_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/thox-ai/thoxbuild/abicheck"
)

// realWheels are popular wheels with the errors that the facts rules must find
// in them: none where the wheel is sound. scipy carries the folder of its
// build container in one RUNPATH.
var realWheels = []struct {
	pin    string
	errors []string
}{
	{"numpy==2.4.6", nil},
	{"scipy==1.17.1", []string{"RPATH"}},
	{"scikit-learn==1.9.1", nil},
	{"pillow==13.0.0", nil},
	{"lxml==6.1.3", nil},
	{"opencv-python-headless==5.0.0.93", nil},
	{"pyarrow==26.0.1", nil},
	{"faiss-cpu==1.15.1", nil},
	{"simsimd==6.5.16", nil},
	{"tokenizers==0.23.3", nil},
	// Its assembly has no .note.GNU-stack section, and a library that it
	// bundles has a relative RPATH.
	{"ctranslate2==4.5.0", []string{"EXECSTACK", "RPATH"}},
}

func TestRealWheels(t *testing.T) {
	if os.Getenv("THOXBUILD_TEST_NETWORK") == "" {
		t.Skip("downloads 220 MB; set THOXBUILD_TEST_NETWORK=1")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	for _, w := range realWheels {
		t.Run(w.pin, func(t *testing.T) {
			dir := t.TempDir()
			out, err := exec.CommandContext(t.Context(), python, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
				"--python-version", "3.11", "--platform", "manylinux_2_28_x86_64", "--platform", "manylinux_2_17_x86_64", "--platform", "manylinux2014_x86_64", "-d", dir, w.pin).CombinedOutput()
			if err != nil {
				t.Fatalf("download: %v\n%s", err, out)
			}
			files, _ := filepath.Glob(filepath.Join(dir, "*.whl"))
			r, err := abicheck.Check(t.Context(), files, &abicheck.Options{FactsOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range r.Findings {
				if f.Severity == abicheck.Error {
					got = append(got, f.ID)
					t.Logf("%s: %s: %s", f.ID, f.Where(), f.Message)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(w.errors, slices.Compact(got)); diff != "" {
				t.Errorf("errors (-want +got)\n%s", diff)
			}
		})
	}
}
