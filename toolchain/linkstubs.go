package toolchain

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/thox-ai/thoxbuild/manifests"
)

// stubRevision changes when the recipe below does.
const stubRevision = "5"

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

// linkStubs makes the libraries that a link sees in place of the real ones:
//
//	glibc/   zig's stubs for the wanted glibc, libc_nonshared.a, libcompiler_rt.a
//	cxx/     libstdc++.so.6 and libgcc_s.so.1 with the allowed versions only
//	torch/   empty libraries with the right names, and the list of exports
//
// zig compiles libcompiler_rt.a for seconds, and only links read it: a build
// compiles meanwhile.
func (s *Store) linkStubs(zig, cxx string, arch manifests.Arch, glibc manifests.Version) (string, *making) {
	triple := targetTriple(arch, glibc)
	name := fmt.Sprintf("link-%s-%s-%s", arch, glibc, fingerprint(stubRevision, zig, cxx, triple))
	return s.entryAhead(name, func(ctx context.Context, dir string) error {
		w := stubMaker{s: s, ctx: ctx, zig: s.Real(zig) + "/zig", triple: triple, dir: dir, tmp: filepath.Join(dir, "tmp")}
		for _, d := range []string{"glibc", "cxx", "torch", "tmp"} {
			if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
				return err
			}
		}
		if err := w.glibc(); err != nil {
			return fmt.Errorf("glibc stubs: %w", err)
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
}

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

// glibc lets zig build its stubs by linking an empty library verbosely, and
// copies what its linker command names.
func (w stubMaker) glibc() error {
	src := filepath.Join(w.tmp, "a.c")
	if err := os.WriteFile(src, []byte("int thox_stub;\n"), 0o644); err != nil {
		return err
	}
	// Not "zig cc -shared", which also builds the library of the undefined
	// behaviour sanitizer, from Zig sources in 14 s, and cannot be told not to.
	out, err := w.run("build-lib", "-dynamic", "-target", w.triple, "-lc", "-fno-ubsan-rt", src,
		"-femit-bin="+filepath.Join(w.tmp, "a.so"), "--verbose-link")
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	last := strings.Fields(lines[len(lines)-1])
	copied := map[string]bool{}
	for _, word := range last {
		base := filepath.Base(word)
		keep := strings.Contains(base, ".so.") || base == "libc_nonshared.a" || base == "libcompiler_rt.a"
		if !keep || copied[base] {
			continue
		}
		if !filepath.IsAbs(word) {
			word = filepath.Join(w.tmp, word)
		}
		b, err := os.ReadFile(word)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(w.dir, "glibc", base), b, 0o644); err != nil {
			return err
		}
		copied[base] = true
	}
	for _, need := range glibcStubs {
		if !copied[need] {
			return fmt.Errorf("zig's link command names no %s: %s", need, lines[len(lines)-1])
		}
	}
	return nil
}

// glibcStubs are what every link names, in this order.
var glibcStubs = []string{"libm.so.6", "libc.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libc_nonshared.a", "libcompiler_rt.a"}

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
