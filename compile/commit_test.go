package compile

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestGitCommit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	repo := filepath.Join(t.TempDir(), "two\nlines")
	kernel := filepath.Join(repo, "kernels", "k")
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	write := func(name string) string {
		t.Helper()
		p := filepath.Join(repo, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	source := write("kernels/k/a.cpp")
	other := write("other.txt")
	workspace := write("build.toml")
	if c := GitCommit(t.Context(), kernel, workspace)(nil); c != nil {
		t.Errorf("a folder in no repository has commit %+v", c)
	}
	run("init", "-q")
	if c := GitCommit(t.Context(), kernel, workspace)(nil); c != nil {
		t.Errorf("a repository without commits has %+v", c)
	}
	run("add", ".")
	run("commit", "-qm", "first")
	dirty := func(sources ...string) bool {
		t.Helper()
		c := GitCommit(t.Context(), kernel, workspace)(sources)
		if c == nil || len(c.SHA) != 40 {
			t.Fatalf("%+v", c)
		}
		return c.Dirty
	}
	if dirty(source) {
		t.Error("a clean tree is dirty")
	}
	os.WriteFile(other, []byte("changed"), 0o644)
	if dirty(source) {
		t.Error("a change outside the kernel makes it dirty")
	}
	untracked := write("kernels/k/new file.h")
	if dirty(source) {
		t.Error("an untracked file that is no source makes it dirty")
	}
	if !dirty(source, untracked) {
		t.Error("a source that git does not track leaves it clean")
	}
	ignored, inside := write("kernels/k/gen.inc"), write("kernels/k/gen/table.h")
	os.WriteFile(filepath.Join(repo, ".git", "info", "exclude"), []byte("*.inc\ngen/\n"), 0o644)
	if dirty(source) {
		t.Error("ignored files that are no sources make it dirty")
	}
	if !dirty(source, ignored) || !dirty(source, inside) {
		t.Error("a source that git ignores leaves it clean")
	}

	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(kernel, link); err != nil {
		t.Fatal(err)
	}
	if c := GitCommit(t.Context(), link, "")([]string{filepath.Join(link, "a.cpp")}); c == nil || c.Dirty {
		t.Errorf("through a link a clean tree is %+v", c)
	}
	if c := GitCommit(t.Context(), link, "")([]string{filepath.Join(link, "new file.h")}); c == nil || !c.Dirty {
		t.Errorf("through a link a source that git does not track leaves %+v", c)
	}

	os.WriteFile(workspace, []byte("changed"), 0o644)
	if !dirty(source) {
		t.Error("a changed workspace file leaves it clean")
	}
	write("build.toml")
	if dirty(source) {
		t.Error("a workspace file that was put back makes it dirty")
	}

	os.WriteFile(source, []byte("changed"), 0o644)
	if !dirty(source) {
		t.Error("a changed source leaves it clean")
	}
}
