package isa

import (
	"archive/zip"
	"bytes"
	"debug/macho"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
	"github.com/thox-ai/thoxbuild/abicheck/machofile"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// releasedWheel is a wheel of the package index with the rules that it breaks.
type releasedWheel struct {
	pkg, want, baseline string
	platform            string // pip's, empty for this machine's
}

// releasedWheels dispatch by CPU. A wheel for Linux that breaks ISA-LOAD is
// loaded on a processor without what it takes, too.
var releasedWheels = []releasedWheel{
	{"faiss-cpu==1.14.2", "ISA-LOAD", "x86-64-v2", ""}, // an AVX2 initialiser merged by LTO: dlopen dies
	{"faiss-cpu==1.15.1", "", "x86-64-v2", ""},         // the same, mended
	{"numpy==2.4.6", "", "x86-64-v2", ""},
	{"pyarrow", "", "x86-64-v2", ""},
	{"opencv-python-headless", "", "x86-64-v2", ""},
	{"scipy", "", "x86-64-v2", ""},
	{"simsimd", "", "x86-64-v2", ""},
	{"pillow", "", "x86-64-v2", ""},
	{"blosc2", "", "x86-64-v2", ""},
	// Compiled for AVX2 as a whole; its authors ship another for older
	// processors, and their Python code looks before it loads this one.
	{"polars-runtime-32==2.1.0", "ISA-LOAD", "x86-64-v2", ""},
	{"polars-runtime-32==2.1.0", "", "x86-64-v3", ""},
	{"sentencepiece", "", "x86-64-v2", ""},
	{"onnxruntime", "", "x86-64-v2", ""},

	{"numpy==2.5.5", "", "", "macosx_14_0_arm64"},
	{"numpy==2.5.5", "", "", "macosx_14_0_x86_64"},
	{"pyarrow==26.0.1", "", "", "macosx_12_0_arm64"},
	{"pyarrow==26.0.1", "", "", "macosx_12_0_x86_64"},
	{"opencv-python-headless==5.0.0.93", "", "", "macosx_13_0_arm64"},
	{"opencv-python-headless==5.0.0.93", "", "", "macosx_14_0_x86_64"},
	{"faiss-cpu==1.15.1", "", "", "macosx_14_0_arm64"},
	{"simsimd==6.5.16", "", "", "macosx_11_0_arm64"},
	{"polars-runtime-32==2.1.0", "", "", "macosx_11_0_arm64"},
	{"polars-runtime-32==2.1.0", "ISA-LOAD", "", "macosx_10_12_x86_64"},
	{"polars-runtime-32==2.1.0", "", "x86-64-v3", "macosx_10_12_x86_64"},
	{"torch==2.15.0", "", "", "macosx_14_0_arm64"},
}

// TestWheels judges released wheels. The index is pip's.
func TestWheels(t *testing.T) {
	if os.Getenv("THOXBUILD_TEST_NETWORK") == "" {
		t.Skip("set THOXBUILD_TEST_NETWORK=1 to download wheels and judge them")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 with pip to download wheels with")
	}
	for _, c := range releasedWheels {
		t.Run(strings.Join([]string{c.pkg, c.baseline, c.platform}, " "), func(t *testing.T) {
			dir := t.TempDir()
			args := []string{"-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "-d", dir}
			if c.platform != "" {
				args = append(args, "--platform", c.platform, "--implementation", "cp", "--python-version", "3.13")
			}
			out, err := exec.CommandContext(t.Context(), python, append(args, c.pkg)...).CombinedOutput()
			if err != nil {
				t.Skipf("pip download %s: %v\n%s", c.pkg, err, out)
			}
			wheels, _ := filepath.Glob(filepath.Join(dir, "*.whl"))
			if len(wheels) != 1 {
				t.Fatalf("%d wheels", len(wheels))
			}
			bad, files := judgeWheel(t, wheels[0], c.baseline)
			ids := map[string]bool{}
			for _, found := range bad {
				for _, id := range found {
					ids[id] = true
				}
			}
			if got := strings.Join(slices.Sorted(maps.Keys(ids)), " "); got != c.want || files == 0 {
				t.Errorf("%s, %d files: got %q, want %q", filepath.Base(wheels[0]), files, got, c.want)
			}
			t.Logf("%s: %d files", filepath.Base(wheels[0]), files)
			if c.platform == "" && len(bad) > 0 {
				confirm(t, python, wheels[0], slices.Sorted(maps.Keys(bad)))
			}
		})
	}
}

// judgeWheel lists, for each library of a wheel with errors, the ids of them.
func judgeWheel(t *testing.T, wheel, baseline string) (bad map[string][]string, files int) {
	t.Helper()
	z, err := zip.OpenReader(wheel)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	bad = map[string][]string{}
	for _, m := range z.File {
		if name := filepath.Base(m.Name); !strings.Contains(name, ".so") && !strings.HasSuffix(name, ".dylib") {
			continue
		}
		r, err := m.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range parts(t, m.Name, b) {
			s.Want.Baseline = baseline
			got, err := runLibrary(t.Context(), s, &rule.Options{})
			if err != nil {
				t.Fatalf("%s: %v", m.Name, err)
			}
			files++
			for _, x := range got {
				if x.Severity == rule.Error {
					bad[m.Name] = append(bad[m.Name], x.ID)
					t.Logf("%s: %s", m.Name, explainAll([]rule.Finding{x}))
				}
			}
		}
	}
	return bad, files
}

// parts opens a library, each architecture of it.
func parts(t *testing.T, name string, b []byte) []*rule.Subject {
	t.Helper()
	s := &rule.Subject{File: name, Name: filepath.Base(name), Data: bytes.NewReader(b), Size: int64(len(b))}
	var err error
	switch {
	case bytes.HasPrefix(b, []byte("\x7fELF")):
		s.ELF, err = elffile.New(s.Data, s.Size)
	case machofile.IsFat(b):
		slices, err := machofile.Slices(s.Data, s.Size)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var all []*rule.Subject
		for _, x := range slices {
			all = append(all, parts(t, name, b[x.Off:][:x.Size])...)
		}
		return all
	case len(b) > 4 && (b[0] == 0xcf || b[0] == 0xce):
		s.MachO, err = machofile.New(s.Data, s.Size)
		if err == nil && s.MachO.Type == macho.TypeObj {
			return nil
		}
	default:
		return nil
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return []*rule.Subject{s}
}

// confirm loads each file of a wheel on an emulated processor without AVX,
// where it must die, and on one with AVX2, where it must load.
func confirm(t *testing.T, python, wheel string, files []string) {
	t.Helper()
	qemu, err := exec.LookPath("qemu-x86_64")
	if err != nil {
		t.Log("no qemu-x86_64: the verdict was not compared with a run")
		return
	}
	// What is on PATH may be a script.
	real, err := exec.CommandContext(t.Context(), python, "-c", "import os, sys; print(os.path.realpath(sys.executable))").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	command(t, python, "-m", "zipfile", "-e", wheel, dir)
	for _, file := range files {
		for cpu, dies := range map[string]bool{"Nehalem": true, "Haswell": false} {
			out, err := exec.CommandContext(t.Context(), qemu, "-cpu", cpu, strings.TrimSpace(string(real)), "-c",
				"import ctypes, sys; ctypes.CDLL(sys.argv[1]); print('loaded')", filepath.Join(dir, file)).CombinedOutput()
			killed := bytes.Contains(out, []byte("signal 4 (Illegal instruction)"))
			if killed != dies || !dies && err != nil {
				t.Errorf("%s on a %s: %v, expected SIGILL: %v\n%s", file, cpu, err, dies, out)
			}
			t.Logf("%s on a %s: SIGILL %v", file, cpu, killed)
		}
	}
}
