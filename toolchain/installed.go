package toolchain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/matrix"
)

// vendorCompiler is a device compiler that no package holds: it is taken from
// this machine.
type vendorCompiler struct {
	name, program string
	// homes are environment variables that name its folder, in order; at is
	// where the program lies below one, as a pattern.
	homes []homeVar
	// release finds major and minor in what --version prints.
	release *regexp.Regexp
	hint    string
}

type homeVar struct{ name, at string }

var hipcc = vendorCompiler{
	name: "ROCm", program: "hipcc",
	homes:   []homeVar{{"ROCM_PATH", "bin"}, {"HIP_PATH", "bin"}},
	release: regexp.MustCompile(`(?m)^HIP version: (\d+)\.(\d+)\.`),
	hint:    "install AMD's ROCm toolkit, and set ROCM_PATH to its folder or put its bin folder on PATH",
}

var icpx = vendorCompiler{
	name: "oneAPI", program: "icpx",
	homes:   []homeVar{{"ONEAPI_ROOT", "compiler/latest/bin"}, {"CMPLR_ROOT", "bin"}},
	release: regexp.MustCompile(`(?m)^Intel\(R\) oneAPI DPC\+\+/C\+\+ Compiler (\d+)\.(\d+)\.`),
	hint:    "install Intel's oneAPI DPC++ compiler, and run its setvars.sh or put its bin folder on PATH",
}

// vendorInstall is one found on this machine.
type vendorInstall struct {
	root    string // the folder above the program's bin
	version manifests.Version
	// text is what --version prints, without folders: the identity.
	text string
}

// find takes the program of the first variable that is set, or else the one on
// PATH, and asks it for its release.
func (c vendorCompiler) find(ctx context.Context) (vendorInstall, error) {
	op := "find " + c.program
	program := ""
	for _, h := range c.homes {
		if dir := os.Getenv(h.name); dir != "" {
			program = filepath.Join(dir, filepath.FromSlash(h.at), c.program)
			if !isFile(program) {
				return vendorInstall{}, &Error{op, fmt.Errorf("%s is %s, and there is no %s/%s in it", h.name, dir, h.at, c.program), c.hint}
			}
			break
		}
	}
	if program == "" {
		var err error
		if program, err = exec.LookPath(c.program); err != nil {
			return vendorInstall{}, &Error{op, fmt.Errorf("%s is not on PATH", c.program), c.hint}
		}
	}
	program, err := filepath.EvalSymlinks(program)
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return vendorInstall{}, &Error{op, err, c.hint}
	}
	text, err := run(ctx, nil, program, "--version")
	if err != nil {
		return vendorInstall{}, &Error{op, err, c.hint}
	}
	m := c.release.FindStringSubmatch(text)
	if m == nil {
		return vendorInstall{}, &Error{op, fmt.Errorf("%s --version printed no release of %s: %q", program, c.name, firstLine(text)), c.hint}
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	return vendorInstall{filepath.Dir(filepath.Dir(program)), manifests.Version{Major: major, Minor: minor}, withoutFolders(text)}, nil
}

// fits says why the compiler can't build for a need.
func (c vendorCompiler) fits(in vendorInstall, want manifests.Version, target manifests.Platform) error {
	host := manifests.Platform{Arch: manifests.Arch(hostArch()), OS: manifests.Linux}
	switch {
	case in.version != want:
		return &Error{"use " + c.program, fmt.Errorf("the installed %s is %v", c.name, in.version), fmt.Sprintf("install %s %v beside it, and name its folder in %s", c.name, want, c.homes[0].name)}
	case target != host:
		return &Error{"use " + c.program, fmt.Errorf("the installed %s is for %v", c.name, host), "build this variant on its own system"}
	}
	return nil
}

// available is nil, or what is missing and how to get it.
func (c vendorCompiler) available(ctx context.Context, n matrix.Need) error {
	in, err := c.find(ctx)
	if err == nil {
		err = c.fits(in, n.Version, n.Target)
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return fmt.Errorf("%w; %s", e.Err, e.Hint)
	}
	return err
}

// vendor finds the compiler for a request and makes an entry with a link to its
// folder, under which commands name it. The same release in another place gives
// the same objects under another key, as an installed CUDA toolkit does.
func (s *Store) vendor(ctx context.Context, c vendorCompiler, r Request) (dir string, in vendorInstall, err error) {
	if in, err = c.find(ctx); err != nil {
		return "", in, err
	}
	if err := c.fits(in, r.Compute.Version, r.Platform); err != nil {
		return "", in, err
	}
	name := fmt.Sprintf("%s-installed-%v-%s", c.program, in.version, fingerprint(in.root, in.text))
	dir, err = s.entry(ctx, name, func(dir string) error { return os.Symlink(in.root, filepath.Join(dir, "root")) })
	return dir + "/root", in, err
}

// vendorHost are the flags that make a clang-based device compiler see the C
// and C++ headers of the kit in its host half, and not this machine's: those of
// a newer C library would ask for symbols above the policy. The order is that
// of clangCUDA.
func vendorHost(parts hostParts, arch manifests.Arch) []string {
	args := []string{
		"-nostdlibinc", "-I" + parts.overlay,
		"-stdlib++-isystem" + parts.cxx + "/c++", "-stdlib++-isystem" + parts.cxx + "/c++-target",
	}
	for _, d := range zigLibcIncludes(arch) {
		args = append(args, "-idirafter", parts.zig+"/lib/libc/include/"+d)
	}
	return append(args, fmt.Sprintf("-D__GLIBC_MINOR__=%d", parts.glibc.Minor), "-ffile-prefix-map="+VirtualRoot+"/=thox/")
}
