package load

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/toolchain"
)

// A Bench builds stand-ins and loads extensions against them. Loader is the
// program of testdata/loader.c for the platform.
type Bench struct {
	Store *toolchain.Store
	Kit   *toolchain.Kit
	// CC is a C compiler for the target, which links the stand-ins.
	CC string
	// Loader is the loading program, and Run what it is run with, such as
	// qemu-aarch64 with the folder of the target's C library.
	Loader string
	Run    []string
	// Dir is where the stand-ins of one library go, and Shared where objects
	// go that serve several.
	Dir, Shared string
}

// compile runs a tool of the kit on one source.
func (b *Bench) compile(ctx context.Context, tool toolchain.Tool, args ...string) error {
	all := append(append([]string(nil), tool.Args...), args...)
	for i := range all {
		all[i] = b.Store.Real(all[i])
	}
	cmd := exec.CommandContext(ctx, all[0], all[1:]...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	for k, v := range tool.Env {
		cmd.Env = append(cmd.Env, k+"="+b.Store.Real(v))
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(all, " "), err, out)
	}
	return nil
}

// Make builds one stand-in into Dir.
func (b *Bench) Make(ctx context.Context, s *Stub) error {
	src := filepath.Join(b.Dir, s.Soname+".cpp")
	if err := os.WriteFile(src, []byte(s.Source()), 0o644); err != nil {
		return err
	}
	objects := []string{src + ".o"}
	if err := b.compile(ctx, b.Kit.CXX, "-O1", "-c", src, "-o", objects[0]); err != nil {
		return err
	}
	if text := s.ParserSource(); text != "" {
		obj, err := b.parsers(ctx, text)
		if err != nil {
			return err
		}
		objects = append(objects, obj)
	}
	link := toolchain.Tool{Args: []string{b.CC}}
	args := append([]string{"-shared", "-Wl,-soname," + s.Soname, "-o", filepath.Join(b.Dir, s.Soname)}, objects...)
	if s.Needed != nil {
		args = append(args, "-Wl,--no-as-needed")
	}
	for _, n := range s.Needed {
		args = append(args, filepath.Join(b.Dir, n))
	}
	return b.compile(ctx, link, args...)
}

// parsers compiles what needs torch's headers, once for a text and a release.
func (b *Bench) parsers(ctx context.Context, text string) (string, error) {
	sum := sha256.Sum256([]byte(text + b.Kit.TorchCXX.Fingerprint))
	src := filepath.Join(b.Shared, fmt.Sprintf("parsers-%x.cpp", sum[:8]))
	obj := src + ".o"
	if _, err := os.Stat(obj); err == nil {
		return obj, nil
	}
	if err := os.WriteFile(src, []byte(text), 0o644); err != nil {
		return "", err
	}
	return obj, b.compile(ctx, b.Kit.TorchCXX, "-O0", "-c", src, "-o", obj)
}

// Load loads a library with what lies in Dir, and returns what the stand-ins
// and the loader said.
func (b *Bench) Load(ctx context.Context, library string) (string, error) {
	init := "-"
	f, err := elf.Open(library)
	if err != nil {
		return "", err
	}
	defer f.Close()
	syms, err := f.DynamicSymbols()
	if err != nil {
		return "", err
	}
	for _, s := range syms {
		if s.Section != elf.SHN_UNDEF && strings.HasPrefix(s.Name, "PyInit_") {
			init = s.Name
		}
	}
	argv := append(append([]string(nil), b.Run...), b.Loader, filepath.Join(b.Dir, python), library, init)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = []string{"LC_ALL=C", "LD_LIBRARY_PATH=" + b.Dir}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Runtime is the folder of CUDA's real runtime library in a kit, empty for a
// kit without CUDA.
func Runtime(s *toolchain.Store, k *toolchain.Kit) string {
	if k.CUDA == nil {
		return ""
	}
	return filepath.Join(filepath.Dir(s.Real(k.CUDA.Includes[0])), "lib")
}

// Target is what is particular to loading on an architecture here: the C
// compiler of the loader, and the program that runs it.
func Target(arch manifests.Arch) (cc string, run []string, err error) {
	cc = "gcc"
	if host, err := exec.Command("uname", "-m").Output(); err != nil {
		return "", nil, err
	} else if strings.TrimSpace(string(host)) != string(arch) {
		cc = string(arch) + "-linux-gnu-gcc"
		run = []string{"qemu-" + string(arch), "-L", "/usr/" + string(arch) + "-linux-gnu"}
	}
	for _, p := range append([]string{cc}, run...)[:min(2, 1+len(run))] {
		if _, err := exec.LookPath(p); err != nil {
			return "", nil, fmt.Errorf("%s is not installed", p)
		}
	}
	return cc, run, nil
}
