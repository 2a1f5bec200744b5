package manifests

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tree writes files into a new folder and returns it.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const smallKernel = `[general]
name = "a-b"
version = 1
edition = 5
license = "mit"
backends = ["cpu"]

[torch]
src = ["bind.cpp"]

[kernel.avx]
backend = "cpu"
depends = []
src = ["cpu/row_avx.cpp", "cpu/rows.h"]
include = ["cpu"]
`

func workspaceFiles() map[string]string {
	return map[string]string{
		"build.toml":                        "[workspace]\nkernels = [\"k/a\"]\n[kernel.a-b.isa.avx]\nentries = [\"rows\"]\n",
		"k/a/build.toml":                    smallKernel,
		"k/a/bind.cpp":                      "",
		"k/a/cpu/row_avx.cpp":               "",
		"k/a/cpu/rows.h":                    "",
		"k/a/torch-ext/a_b/__init__.py":     "",
		"k/a/torch-ext/a_b/sub/__init__.py": "",
	}
}

func TestLoad(t *testing.T) {
	dir := tree(t, workspaceFiles())
	for _, path := range []string{"", "build.toml", "k/a", "k/a/build.toml"} {
		p, err := Load(filepath.Join(dir, path))
		if err != nil {
			t.Errorf("%q: %v", path, err)
			continue
		}
		if len(p.Warnings) > 0 {
			t.Errorf("%q: %v", path, p.Warnings)
		}
		if len(p.Kernels) != 1 || p.Kernels[0].Dir != filepath.Join(dir, "k", "a") {
			t.Errorf("%q: kernels %+v", path, p.Kernels)
		}
		// The workspace's word holds however the kernel is named.
		if u, ok := p.Workspace.ISAUnit("a-b", "avx"); !ok || !cmp.Equal(u.Entries, []string{"rows"}) || p.Workspace.Dir != dir {
			t.Errorf("%q: workspace %+v", path, p.Workspace)
		}
	}
}

func TestLoadFindsEveryProblemOnDisk(t *testing.T) {
	files := workspaceFiles()
	delete(files, "k/a/cpu/row_avx.cpp")
	files["k/a/cpu/rows_avx.cpp"] = ""
	delete(files, "k/a/torch-ext/a_b/__init__.py")
	delete(files, "k/a/torch-ext/a_b/sub/__init__.py")
	files["k/a/torch-ext/a-b/__init__.py"] = ""
	files["k/a/build.toml"] = strings.NewReplacer(`"bind.cpp"`, `"*.cpp", "out.cpp", "cpu"`, `["cpu"]`+"\n\n", `["cpu", "cuda"]`+"\n\n", `license`, `licence`, `include = ["cpu"]`, `include = ["inc"]`).Replace(smallKernel)
	files["build.toml"] = strings.Replace(files["build.toml"], `"k/a"`, `"k/a", "k/none"`, 1)
	dir := tree(t, files)
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "k", "a", "out.cpp")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	_, err := Load(".")
	var ps Problems
	if !errors.As(err, &ps) {
		t.Fatal(err)
	}
	want := `k/a/build.toml:1:1: [general]: missing key "license" (add license = "apache-2.0")
k/a/build.toml:2:8: general.name: no Python package torch-ext/a_b/__init__.py, which is what users import (rename torch-ext/a-b: dashes become underscores)
k/a/build.toml:5:1: [general]: unknown key "licence"; expected backends, cuda, edition, hub, kernel-depends, license, name, neuron, python-depends, source, tpu, upstream, version or xpu (did you mean "license"?)
k/a/build.toml:6:20: warning: general.backends[1]: no section compiles anything for "cuda", so its variants can't be built (add a [kernel.<name>] table with backend = "cuda")
k/a/build.toml:9:8: torch.src[0]: no file "*.cpp" (patterns are not expanded; list each file)
k/a/build.toml:9:17: torch.src[1]: "out.cpp": path escapes from parent
k/a/build.toml:9:28: torch.src[2]: "cpu" is not a regular file
k/a/build.toml:14:8: kernel.avx.src[0]: no file "cpu/row_avx.cpp" in the kernel's folder (did you mean "cpu/rows_avx.cpp"?)
k/a/build.toml:15:12: warning: kernel.avx.include[0]: no folder "inc" in the kernel's folder
build.toml:2:19: k/none/build.toml: no such file; expected a kernel or a workspace there`
	if diff := cmp.Diff(want, ps.Error()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWorkspaceMembers(t *testing.T) {
	files := workspaceFiles()
	files["build.toml"] = "[workspace]\nkernels = [\"k/a\", \".\"]\n"
	if _, err := Load(tree(t, files)); err == nil || !strings.Contains(err.Error(), "is a workspace; expected a kernel") {
		t.Errorf("a workspace in itself: %v", err)
	}
	files["build.toml"] = "[workspace]\nkernels = [\"k/a\"]\n[kernel.a-b.isa.avy]\nentries = [\"x\"]\n[kernel.ab.isa.avx]\nentries = [\"x\"]\n[kernel.abc.dispatch]\nguards = [\"g\"]\n" +
		"[kernel.other]\nstable-abi = \"2.11\"\n"
	_, err := Load(tree(t, files))
	for _, want := range []string{
		`build.toml:3:1: [kernel.a-b.isa.avy]: kernel "a-b" has no cpu section "avy"; expected avx (did you mean "avx"?)`,
		`build.toml:7:1: [kernel.abc]: no kernel of this workspace has the name "abc"; expected a-b`,
		`build.toml:5:1: [kernel.ab]: no kernel of this workspace has the name "ab"; expected a-b (did you mean "a-b"?)`,
		`build.toml:9:1: [kernel.other]: no kernel of this workspace has the name "other"; expected a-b`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A workspace can ask for stable-ABI forms of a compiled kernel only.
func TestWorkspaceStableABI(t *testing.T) {
	files := workspaceFiles()
	files["build.toml"] = "[workspace]\nkernels = [\"k/a\"]\n[kernel.a-b]\nstable-abi = { cpu = \"2.11\" }\n"
	p, err := Load(tree(t, files))
	if err != nil {
		t.Fatal(err)
	}
	if floor, ok := p.Workspace.StableABI["a-b"].For(CPU); !ok || floor != (Version{2, 11}) {
		t.Errorf("got the floor %v, %v", floor, ok)
	}
	files["k/a/build.toml"] = "[general]\nname = \"a-b\"\nversion = 1\nedition = 5\nlicense = \"mit\"\nbackends = [\"cpu\"]\n[torch-noarch]\n"
	const want = "build.toml:4:14: kernel.a-b.stable-abi: only [torch] has a stable ABI, and "
	if _, err := Load(tree(t, files)); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a noarch kernel: got %v, want %s", err, want)
	}
}

func TestConvert(t *testing.T) {
	v4, err := os.ReadFile("testdata/good/v4.toml")
	if err != nil {
		t.Fatal(err)
	}
	out, err := Convert("build.toml", v4)
	if err != nil {
		t.Fatal(err)
	}
	// The edition is all that changes: comments and the zero of 13.0 stay.
	if want := strings.Replace(string(v4), "name = \"old\"", "edition = 5\nname = \"old\"", 1); string(out) != want {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, string(out)))
	}
	again, err := Convert("build.toml", out)
	if err != nil || string(again) != string(out) {
		t.Errorf("converting twice: %v", err)
	}
	v3 := "# top\r\n[general]\r\n  name = \"a-b\"\r\nlicense = \"mit\"\r\nbackends = [\"cuda\"]"
	out, err = Convert("build.toml", []byte(v3))
	if want := "# top\r\n[general]\r\nedition = 5\r\nversion = 1\r\n  name = \"a-b\"\r\nlicense = \"mit\"\r\nbackends = [\"cuda\"]\n\n[torch-noarch]\n"; err != nil || string(out) != want {
		t.Errorf("v3: %v\n%s", err, cmp.Diff(want, string(out)))
	}
	for _, form := range []string{
		"general = { name = \"a-b\", version = 2, license = \"mit\", backends = [\"cpu\"] }\n[torch-noarch]\n",
		"general.name = \"a-b\"\ngeneral.version = 2\ngeneral.license = \"mit\"\ngeneral.backends = [\"cpu\"]\ntorch-noarch = {}\n",
		"\ufeff[general]\nname = \"a-b\"\nversion = 2\nlicense = \"mit\"\nbackends = [\"cpu\"]\n[torch-noarch]\n",
	} {
		out, err := Convert("build.toml", []byte(form))
		if err != nil {
			t.Errorf("%s: %v", form, err)
			continue
		}
		b, err := ParseBuild("build.toml", out)
		if err != nil || b.Kernel.Edition != 5 || b.Kernel.General.Version != 2 {
			t.Errorf("%s: %v", out, err)
		}
	}
}

// Upstream takes a v4 file with any mistake in [torch] for v3 and rewrites it
// without its [torch] table.
func TestConvertNeverDropsATable(t *testing.T) {
	v4, err := os.ReadFile("testdata/good/v4.toml")
	if err != nil {
		t.Fatal(err)
	}
	broken := strings.Replace(string(v4), `minver = "2.10"`, `minver = 2.10`, 1)
	if out, err := Convert("build.toml", []byte(broken)); err == nil || !strings.Contains(err.Error(), "torch.minver: expected a version") {
		t.Errorf("got %s, %v", out, err)
	}
	// A table of stable ABI floors only lacks the edition.
	table := strings.Replace(string(v4), `stable-abi = "2.9"`, `stable-abi = { cpu = "2.9" }`, 1)
	out, err := Convert("build.toml", []byte(table))
	if err != nil || !strings.Contains(string(out), `stable-abi = { cpu = "2.9" }`) {
		t.Errorf("got %s, %v", out, err)
	}
	noLicense := strings.Replace(string(v4), "license = \"MIT\"\n", "", 1)
	if _, err := Convert("build.toml", []byte(noLicense)); err == nil || !strings.Contains(err.Error(), "only you know the license") {
		t.Errorf("without a license: %v", err)
	}
}
