package tests

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestReproducible builds twice with the real compilers, as two people who
// share nothing: other folders for the sources, the store, the home and the
// temporary files, another umask, language, time zone, clock and number of
// jobs. Every file of every variant has to be the same, and none may name one
// of the folders.
//
// `make test` builds the CPU variants of torch 2.13 for both processors;
// THOXBUILD_TEST_FULL=1 those of every torch release, and CUDA 12.6, 13.0 and
// 13.2 for torch 2.13.
func TestReproducible(t *testing.T) {
	cpu, cuda := "torch213-cxx11-cpu-*-linux", ""
	tools := []string{"torch-include-2.13.*-x86_64-*", "torch-include-2.13.*-aarch64-*"}
	if os.Getenv("THOXBUILD_TEST_FULL") == "1" {
		cpu, cuda = "torch2*-cxx11-cpu-*-linux", "torch213-cxx11-cu[0-9]*-linux"
		tools = append(tools, "torch-include-2.11.*", "torch-include-2.15.*", "nvcc-*", "cuda-12.6-*")
	}
	store := filepath.Join(repoRoot(t), ".cache", "store")
	for _, pattern := range append([]string{"zig-0*"}, tools...) {
		if found, _ := filepath.Glob(filepath.Join(store, "tools", pattern)); len(found) == 0 {
			t.Skipf("no %s in %s: run 'thoxbuild toolchain fetch', or make kernel", pattern, store)
		}
	}
	dir := t.TempDir()
	// The clock of the second build runs in another year for programs that
	// are linked dynamically. zig is not, and reads the kernel's clock through
	// the vDSO, where nothing can stand in between: for it the clock differs
	// by the time between the two builds, which is what stamp.cpp looks at.
	first := &builder{
		t: t, dir: filepath.Join(dir, "ann"), umask: "022", jobs: "2",
		env: []string{"LANG=C.UTF-8", "TZ=UTC", "USER=ann"},
	}
	second := &builder{
		t: t, dir: filepath.Join(dir, "somebody else", "with a longer path", "ben"), umask: "077", jobs: "3",
		env: []string{"LANG=tr_TR.UTF-8", "LC_ALL=tr_TR.UTF-8", "TZ=Pacific/Auckland", "USER=ben", "SOURCE_DATE_EPOCH=12345"},
	}
	first.makeFolders(store)
	second.makeFolders(store)
	first.copySources()
	first.git("init", "-q", "-b", "main")
	first.git("add", "-A")
	first.git("commit", "-q", "-m", "sources")
	second.git("clone", "-q", first.sources(), ".")
	second.clock()

	start := time.Now()
	first.build(cpu)
	for time.Since(start) < 2*time.Second {
		time.Sleep(100 * time.Millisecond) // __TIME__ counts in seconds
	}
	second.build(cpu)
	if cuda != "" {
		// nvcc's cicc has a malloc that asks for the time, libfaketime's clock
		// begins with a malloc, and each waits for the other. So for CUDA the
		// clocks of all programs differ by the time between the builds.
		second.wrap, second.setup = nil, ""
		first.build(cuda)
		second.build(cuda)
	}

	a, b := first.files(), second.files()
	libraries := 0
	for _, name := range slices.Sorted(mapsKeys(a, b)) {
		switch x, y := a[name], b[name]; {
		case x == nil || y == nil:
			t.Errorf("%s is there once: %v, %v", name, x != nil, y != nil)
		case x.mode != y.mode:
			t.Errorf("%s has the mode %v, and %v", name, x.mode, y.mode)
		case !bytes.Equal(x.data, y.data):
			t.Errorf("%s differs: %s", name, where(x.data, y.data))
		}
	}
	for name, f := range a {
		if strings.HasSuffix(name, ".so") {
			libraries++
		}
		for _, private := range []string{dir, "/tmp/", "/ann/", "somebody else"} {
			if bytes.Contains(f.data, []byte(private)) {
				t.Errorf("%s names %q", name, private)
			}
		}
	}
	if want := len(first.built); libraries != want || want < 4 {
		t.Errorf("%d libraries in %d variants, expected one in each and at least 4", libraries, want)
	}
	t.Logf("%d files of %d variants are the same", len(a), len(first.built))
}

// builder is one of the two people.
type builder struct {
	t           *testing.T
	dir         string
	umask, jobs string
	env         []string
	wrap        []string // what runs the command, such as unshare
	setup       string   // shell text in front of it
	built       []string
}

func (b *builder) sources() string { return filepath.Join(b.dir, "src", "kernels") }

// makeFolders lays the folders out, with a store whose tools are links to
// another one's. They are hard links, for compilers find out where they really
// are.
func (b *builder) makeFolders(store string) {
	t := b.t
	t.Helper()
	for _, d := range []string{b.sources(), filepath.Join(b.dir, "home"), filepath.Join(b.dir, "tmp"), filepath.Join(b.dir, "store", "locks")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := linkTree(filepath.Join(store, "tools"), filepath.Join(b.dir, "store", "tools")); err != nil {
		t.Fatal(err)
	}
	pins, err := os.ReadFile(filepath.Join(store, "locks", "pins.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(b.dir, "store", "locks", "pins.json"), pins, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// copySources fills the sources with this repository's kernel and one that
// writes down the time.
func (b *builder) copySources() {
	t := b.t
	t.Helper()
	root := repoRoot(t)
	src := filepath.Join(b.sources(), "kernels-src", "thox-edge-ops")
	if err := os.CopyFS(src, os.DirFS(filepath.Join(root, "kernels-src", "thox-edge-ops"))); err != nil {
		t.Fatal(err)
	}
	os.RemoveAll(filepath.Join(src, "build"))
	for _, name := range []string{"build.toml", "toolchain.lock"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if name == "build.toml" {
			text = bytes.Replace(text, []byte(`"kernels-src/thox-edge-ops"`), []byte(`"kernels-src/thox-edge-ops", "stamp"`), 1)
		}
		if err := os.WriteFile(filepath.Join(b.sources(), name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(b.sources(), "stamp"), os.DirFS(filepath.Join(root, "tests", "testdata", "stamp"))); err != nil {
		t.Fatal(err)
	}
}

// clock gives the builder's dynamically linked programs another year, by
// libfaketime in an /etc of their own: the environment of a compiler holds
// nothing of the caller's, so LD_PRELOAD would not get through.
func (b *builder) clock() {
	t := b.t
	found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
	ns := mountNamespace(t)
	if len(found) == 0 || ns == nil {
		t.Log("no libfaketime (apt-get install faketime), or no right to mount: the clocks differ by the time between the builds only")
		return
	}
	etc := filepath.Join(b.dir, "etc")
	if out, err := exec.Command("cp", "-a", "/etc", etc).CombinedOutput(); err != nil {
		t.Fatalf("copy /etc: %v\n%s", err, out)
	}
	for name, text := range map[string]string{"ld.so.preload": found[0] + "\n", "faketimerc": "@2031-05-06 07:08:09\n"} {
		if err := os.WriteFile(filepath.Join(etc, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b.wrap = append([]string{"unshare"}, ns...)
	b.setup = fmt.Sprintf("mount --bind '%s' /etc && test \"$(date +%%Y)\" = 2031 || exit 9\n", etc)
}

// build builds the variants that a glob names and remembers their names.
func (b *builder) build(variants string) {
	b.t.Helper()
	exe, err := exec.LookPath("thoxbuild")
	if err != nil {
		b.t.Fatal(err)
	}
	args := append(slices.Clone(b.wrap), "sh", "-c", b.setup+"umask "+b.umask+"\nexec \"$@\"", "sh",
		exe, "--offline", "build", "--jobs", b.jobs, "--variant", variants)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = b.sources()
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(b.dir, "home"), "TMPDIR=" + filepath.Join(b.dir, "tmp"),
		"THOXBUILD_STORE=" + filepath.Join(b.dir, "store"),
	}, b.env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("%v: %v\n%s", args, err, &stderr)
	}
	b.built = append(b.built, strings.Fields(string(out))...)
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	b.t.Log(lines[len(lines)-1])
	if !strings.Contains(stderr.String(), " 0 came from the cache") {
		b.t.Error("something came from a cache that was to be empty")
	}
}

// git runs git in the sources with a fixed author and date.
func (b *builder) git(args ...string) {
	b.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = b.sources()
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

type builtFile struct {
	mode fs.FileMode
	data []byte
}

// files reads what was built, by the path below build/. A folder has no data.
func (b *builder) files() map[string]*builtFile {
	b.t.Helper()
	root := filepath.Join(b.sources(), "build")
	out := map[string]*builtFile{}
	err := filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == root || filepath.Dir(p) == root {
			return err // build/ and build/<kernel>/ are the person's own
		}
		if e.IsDir() && e.Name() == ".abicheck" {
			return nil // so is this folder, but not the reports in it
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		f := &builtFile{mode: fi.Mode()}
		if !e.IsDir() {
			if f.data, err = os.ReadFile(p); err != nil {
				return err
			}
		}
		rel, err := filepath.Rel(root, p)
		out[rel] = f
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func mapsKeys(ms ...map[string]*builtFile) func(func(string) bool) {
	return func(yield func(string) bool) {
		seen := map[string]bool{}
		for _, m := range ms {
			for k := range m {
				if !seen[k] {
					seen[k] = true
					if !yield(k) {
						return
					}
				}
			}
		}
	}
}

// where names the first difference of two files, in a library by its section.
func where(a, b []byte) string {
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	text := fmt.Sprintf("%d and %d bytes, the first difference is at %#x", len(a), len(b), at)
	f, err := elf.NewFile(bytes.NewReader(a))
	if err != nil {
		return text
	}
	for _, s := range f.Sections {
		if uint64(at) >= s.Offset && uint64(at) < s.Offset+s.FileSize {
			text += " in " + s.Name
		}
	}
	return text
}

// linkTree makes a tree of hard links, or of copies where another file system
// begins.
func linkTree(from, to string) error {
	return filepath.WalkDir(from, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		dst := filepath.Join(to, rel)
		switch {
		case e.IsDir():
			return os.MkdirAll(dst, 0o755)
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(target, dst)
		}
		if err := os.Link(p, dst); err == nil || errors.Is(err, fs.ErrExist) {
			return err
		}
		return copyFile(p, dst)
	})
}

func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	fi, err := src.Stat()
	if err != nil {
		return err
	}
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fi.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}
