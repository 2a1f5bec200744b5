package isa

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// TestArmWheels judges released wheels for AArch64 that dispatch by CPU. A
// library that gets an ISA-LOAD is loaded on an emulated Cortex-A35, where it
// has to die; one that cannot be loaded there for want of its neighbours is
// said so.
func TestArmWheels(t *testing.T) {
	if os.Getenv("THOXBUILD_TEST_NETWORK") == "" {
		t.Skip("set THOXBUILD_TEST_NETWORK=1 to download wheels for AArch64 and judge them")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 with pip to download wheels with")
	}
	wheels := armWheels
	if !full {
		wheels = wheels[:6]
	}
	for _, c := range wheels {
		t.Run(c.pkg, func(t *testing.T) {
			dir := t.TempDir()
			args := []string{"-m", "pip", "download", "-q", "--no-cache-dir", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--python-version", "3.12", "-d", dir}
			for _, p := range []string{"2_17", "2_24", "2_26", "2_27", "2_28", "2_31", "2_34"} {
				args = append(args, "--platform", "manylinux_"+p+"_aarch64")
			}
			if out, err := exec.CommandContext(t.Context(), python, append(args, "--platform", "manylinux2014_aarch64", c.pkg)...).CombinedOutput(); err != nil {
				t.Fatalf("pip download %s: %v\n%s", c.pkg, err, out)
			}
			found, _ := filepath.Glob(filepath.Join(dir, "*.whl"))
			if len(found) != 1 {
				t.Fatalf("%d wheels", len(found))
			}
			z, err := zip.OpenReader(found[0])
			if err != nil {
				t.Fatal(err)
			}
			defer z.Close()
			var ids []string
			files, noted := 0, 0
			for _, m := range z.File {
				b := elfMember(t, m)
				if b == nil {
					continue
				}
				f, err := elffile.New(bytes.NewReader(b), int64(len(b)))
				if err != nil {
					t.Fatalf("%s: %v", m.Name, err)
				}
				got, err := checkLibrary(t.Context(), &rule.Subject{File: m.Name, Data: bytes.NewReader(b), Size: int64(len(b)), ELF: f}, &rule.Options{})
				if err != nil {
					t.Fatalf("%s: %v", m.Name, err)
				}
				files++
				if len(got) > 0 {
					noted++
				}
				for _, x := range got {
					if x.Severity != rule.Error {
						continue
					}
					ids = append(ids, x.ID)
					t.Logf("%s: %s", m.Name, explainAll([]rule.Finding{x}))
				}
				if slices.ContainsFunc(got, func(f rule.Finding) bool { return f.ID == "ISA-LOAD" }) {
					confirmArm(t, dir, filepath.Base(m.Name), b)
				}
			}
			slices.Sort(ids)
			if got := strings.Join(slices.Compact(ids), " "); got != c.want {
				t.Errorf("%s: got %q, want %q", filepath.Base(found[0]), got, c.want)
			}
			t.Logf("%s: %d libraries, %d with a finding of any kind", filepath.Base(found[0]), files, noted)
		})
	}
}

// armWheels are what TestArmWheels judges; the first ones always, the rest in
// the long form.
var armWheels = []struct{ pkg, want string }{
	{"numpy==2.4.6", ""},
	{"scipy==1.17.1", ""},
	{"faiss-cpu==1.15.1", ""},
	{"simsimd", ""},
	{"pillow", ""},
	{"blosc2", ""},
	{"pyarrow", ""},
	{"opencv-python-headless", ""},
	{"onnxruntime", ""},
	{"cryptography", ""},
	{"polars-runtime-32", ""},
	{"torch==2.4.0", "ISA-LOAD"}, // std::string from a unit for LSE in an initialiser: it died on a Raspberry Pi 4
	{"torch==2.13.0", ""},
}

// elfMember reads a member of a wheel that is a shared library; nil for others.
func elfMember(t *testing.T, m *zip.File) []byte {
	t.Helper()
	if !strings.Contains(filepath.Base(m.Name), ".so") {
		return nil
	}
	r, err := m.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil || !bytes.HasPrefix(b, []byte("\x7fELF")) {
		return nil
	}
	return b
}

// confirmArm loads a library that is said to die when it is loaded.
func confirmArm(t *testing.T, dir, name string, b []byte) {
	t.Helper()
	if len(crosses()) == 0 {
		t.Log("no cross compiler for a program that loads it")
		return
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	qemu, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		t.Log("no qemu-aarch64 to load it with")
		return
	}
	out, err := exec.CommandContext(t.Context(), qemu, "-cpu", oldCPU, "-L", "/usr/aarch64-linux-gnu", armDriver(t), path, "").CombinedOutput()
	switch {
	case err == nil:
		t.Errorf("%s loads on a %s: the ISA-LOAD is false", name, oldCPU)
	case strings.Contains(err.Error(), "illegal instruction"):
		t.Logf("%s dies of SIGILL when it is loaded on a %s", name, oldCPU)
	default:
		t.Logf("%s cannot be loaded alone: %v %s", name, err, out)
	}
}
