package toolchain

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/manifests"
)

// stubRevision changes when the recipe below does.
const stubRevision = "6"

// torchLibraries are the libraries of a torch installation that an extension
// names in DT_NEEDED. torch has them loaded before it loads an extension, but
// not in the global scope, so without the entries the symbols stay undefined.
func torchLibraries(b manifests.Backend) []string {
	libs := []string{"libc10.so", "libtorch_cpu.so", "libtorch.so"}
	if b == manifests.CUDA {
		libs = append(libs, "libc10_cuda.so", "libtorch_cuda.so")
	}
	return libs
}

// linkParts is what a link reads beside the objects and libstdc++.a.
//
//	glibc/   zig's stubs for the wanted glibc, libc_nonshared.a, libcompiler_rt.a
//	cxx/     libstdc++.so.6 and libgcc_s.so.1 with the allowed versions only
//	torch/   empty libraries with the right names, and the list of exports
//
// zig compiles libcompiler_rt.a for seconds, and few libraries take anything
// from it. So a folder with an empty one is made first, and the whole one when
// somebody asks for it.
type linkParts struct {
	// whole is the folder that commands name, early the one with the empty
	// archive; early is "" where the whole one is there.
	whole, early string
	making       *making // of early; nil when it is there
	complete     func(context.Context) error
}

// linkStubs begins to make the libraries that a link sees in place of the real
// ones.
func (s *Store) linkStubs(zig, cxx string, arch manifests.Arch, glibc manifests.Version) *linkParts {
	triple := targetTriple(arch, glibc)
	id := fmt.Sprintf("%s-%s-%s", arch, glibc, fingerprint(stubRevision, zig, cxx, triple))
	p := &linkParts{whole: VirtualRoot + "/link-" + id}
	if s.has("link-" + id) {
		return p
	}
	maker := func(ctx context.Context, dir string) stubMaker {
		return stubMaker{s: s, ctx: ctx, zig: s.Real(zig) + "/zig", triple: triple, dir: dir, tmp: filepath.Join(dir, "tmp")}
	}
	p.early, p.making = s.entryAhead("link-early-"+id, func(ctx context.Context, dir string) error {
		w := maker(ctx, dir)
		for _, d := range []string{"glibc", "cxx", "torch", "tmp"} {
			if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
				return err
			}
		}
		if err := w.glibc(); err != nil {
			return fmt.Errorf("glibc stubs: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, compilerRT), []byte("!<arch>\n"), 0o644); err != nil {
			return err
		}
		for _, lib := range []string{"libstdc++.so.6", "libgcc_s.so.1"} {
			if err := w.versioned(s.Real(cxx)+"/lib/"+lib, "cxx/"+lib); err != nil {
				return fmt.Errorf("stub of %s: %w", lib, err)
			}
		}
		empty := filepath.Join(w.tmp, "empty.s")
		if err := os.WriteFile(empty, []byte("\t.section .note.GNU-stack,\"\",%progbits\n"), 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "torch", exportsMap), []byte(exportsScript), 0o644); err != nil {
			return err
		}
		for _, lib := range torchLibraries(manifests.CUDA) {
			if err := w.library(empty, "", lib, "torch/"+lib); err != nil {
				return fmt.Errorf("stub of %s: %w", lib, err)
			}
		}
		return os.RemoveAll(w.tmp)
	})
	p.complete = func(ctx context.Context) error {
		if err := p.making.wait(ctx); err != nil {
			return err
		}
		_, err := s.entry(ctx, "link-"+id, func(dir string) error {
			if err := os.CopyFS(dir, os.DirFS(s.Real(p.early+"/"))); err != nil {
				return err
			}
			w := maker(ctx, dir)
			if err := os.Mkdir(w.tmp, 0o755); err != nil {
				return err
			}
			if err := w.compilerRT(); err != nil {
				return fmt.Errorf("compiler runtime: %w", err)
			}
			return os.RemoveAll(w.tmp)
		})
		return err
	}
	return p
}

// compilerRT is the archive with what compilers call of their own accord and
// libgcc_s does not have within the policy, such as the conversion of half
// precision on a processor that has none.
const compilerRT = "glibc/libcompiler_rt.a"

// LinkedWhole reports whether a library that was linked against an EarlyLink
// needs nothing of what that lacks: it is then byte for byte the one that a
// link of the whole makes, for an archive of which nothing is taken leaves no
// trace. Symbols of glibc and libstdc++ come with a version and torch's and
// Python's are known by their names, so any other name may be the compiler's.
func LinkedWhole(file string) (bool, error) {
	f, err := elf.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	syms, err := f.DynamicSymbols()
	if err != nil {
		return false, err
	}
	for _, s := range syms {
		if s.Section != elf.SHN_UNDEF || s.Version != "" || elf.ST_BIND(s.Info) == elf.STB_WEAK {
			continue
		}
		if !slices.ContainsFunc(loadedPrefixes, func(p string) bool { return strings.HasPrefix(s.Name, p) }) {
			return false, nil
		}
	}
	return true, nil
}

// loadedPrefixes begin the names of what a process with torch has loaded: C++,
// Python's API, torch's C API, the CUDA runtime, and the dynamic linker itself.
var loadedPrefixes = []string{"_Z", "Py", "_Py", "aoti_torch_", "torch_", "cuda", "__tls_get_addr"}

// exportsScript leaves a torch extension with the one symbol that Python looks
// up. torch's headers mark hundreds of inline functions as visible; exported,
// they could stand in for another library's copies, or be replaced by them.
const (
	exportsMap    = "exports.map"
	exportsScript = "{ global: PyInit_*; PyModExport_*; local: *; };\n"
)

type stubMaker struct {
	s           *Store
	ctx         context.Context
	zig, triple string
	dir, tmp    string
}

// run executes zig and returns what it printed on both streams.
func (w stubMaker) run(args ...string) (string, error) {
	cmd := exec.CommandContext(w.ctx, w.zig, args...)
	cmd.Dir = w.tmp
	cache := filepath.Join(w.tmp, "zig-cache")
	cmd.Env = []string{"HOME=" + w.tmp, "TMPDIR=" + w.tmp, "LC_ALL=C",
		"ZIG_GLOBAL_CACHE_DIR=" + cache, "ZIG_LOCAL_CACHE_DIR=" + cache}
	killGroup(cmd)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		if w.ctx.Err() != nil {
			return "", w.ctx.Err()
		}
		tail := out.String()
		return "", fmt.Errorf("zig %s: %w\n%s", strings.Join(args, " "), err, tail[max(0, len(tail)-2000):])
	}
	return out.String(), nil
}

// glibc lets zig build its stubs for the linking of an empty library.
func (w stubMaker) glibc() error {
	got, err := w.builtFor("-fno-compiler-rt")
	if err != nil {
		return err
	}
	for _, need := range glibcStubs {
		if got[need] == "" {
			return fmt.Errorf("zig's link command names no %s", need)
		}
	}
	for name, from := range got {
		if strings.Contains(name, ".so.") || name == "libc_nonshared.a" {
			if err := copyFile(from, filepath.Join(w.dir, "glibc", name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// compilerRT lets zig compile its runtime library.
func (w stubMaker) compilerRT() error {
	got, err := w.builtFor()
	if err != nil {
		return err
	}
	from := got[filepath.Base(compilerRT)]
	if from == "" {
		return errors.New("zig's link command names none")
	}
	return copyFile(from, filepath.Join(w.dir, filepath.FromSlash(compilerRT)))
}

// builtFor links an empty library verbosely, and returns the files that the
// linker's command names, by their names.
func (w stubMaker) builtFor(flags ...string) (map[string]string, error) {
	src := filepath.Join(w.tmp, "a.c")
	if err := os.WriteFile(src, []byte("int thox_stub;\n"), 0o644); err != nil {
		return nil, err
	}
	// Not "zig cc -shared", which also builds the library of the undefined
	// behaviour sanitizer, from Zig sources in 14 s, and cannot be told not to.
	// Debug data would hold this folder, and another machine's archive be another
	// one; a cluster could not tell that links with the two are the same.
	args := append([]string{"build-lib", "-dynamic", "-target", w.triple, "-lc", "-fno-ubsan-rt", "-fstrip", src,
		"-femit-bin=" + filepath.Join(w.tmp, "a.so"), "--verbose-link"}, flags...)
	out, err := w.run(args...)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	files := map[string]string{}
	for _, word := range strings.Fields(lines[len(lines)-1]) {
		base := filepath.Base(word)
		if !filepath.IsAbs(word) {
			word = filepath.Join(w.tmp, word)
		}
		if files[base] == "" {
			files[base] = word
		}
	}
	return files, nil
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

// glibcStubs are what every link names of glibc, in this order.
var glibcStubs = []string{"libm.so.6", "libc.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libc_nonshared.a"}

// versioned makes a stub with the allowed symbols of a real library.
func (w stubMaker) versioned(real, to string) error {
	soname, syms, err := offeredSymbols(real)
	if err != nil {
		return err
	}
	if len(syms) == 0 {
		return fmt.Errorf("%s offers no symbol within the policy", filepath.Base(real))
	}
	asm, script := stubSource(syms)
	src, ver := filepath.Join(w.tmp, soname+".s"), filepath.Join(w.tmp, soname+".map")
	if err := os.WriteFile(src, asm, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(ver, script, 0o644); err != nil {
		return err
	}
	return w.library(src, ver, soname, to)
}

// library assembles one file and links it to a shared library.
func (w stubMaker) library(asm, script, soname, to string) error {
	obj := filepath.Join(w.tmp, soname+".o")
	if _, err := w.run("cc", "-target", w.triple, "-g0", "-c", asm, "-o", obj); err != nil {
		return err
	}
	args := []string{"ld.lld", "-shared", "--build-id=none", "-soname", soname, "-o", filepath.Join(w.dir, filepath.FromSlash(to)), obj}
	if script != "" {
		args = append(args, "--version-script="+script)
	}
	_, err := w.run(args...)
	return err
}
