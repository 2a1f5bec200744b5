package toolchain

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/thox-ai/thoxbuild/manifests"
)

// clangCUDAProgram compiles CUDA 12, whose packages hold no nvcc. It is a
// clang of Debian and Ubuntu, because the one inside zig comes without the
// headers that clang puts in front of CUDA's.
const clangCUDAProgram = "clang-19"

// clangCUDAPath is where that program is looked for. The script that runs it
// has the same list: the environment of an action holds no PATH.
const clangCUDAPath = "/usr/local/bin:/usr/bin:/bin"

// fatbinaryScript translates between the fatbinary of CUDA 13 and a clang that
// knows the one of CUDA 12.
//
//go:embed scripts/fatbinary.sh
var fatbinaryScript string

// clangCUDA provides CUDA 12: clang, ptxas and libdevice of the wheels, and
// fatbinary of CUDA 13, the first one that a wheel holds. The host half sees
// the same C and C++ headers as zig's clang.
func (s *Store) clangCUDA(ctx context.Context, r Request, parts hostParts) (*CUDA, error) {
	cuda, arch := r.Compute.Version, r.Platform.Arch
	toolkit, err := s.clangToolkit(ctx, cuda, arch)
	if err != nil {
		return nil, err
	}
	clang, err := s.clangScript(ctx)
	if err != nil {
		return nil, err
	}
	args := []string{
		clang + "/clang++", "-target", string(arch) + "-linux-gnu", "--cuda-path=" + toolkit,
		// clang 19 was made before CUDA 12.6 and says so each time.
		"-Wno-unknown-cuda-version",
		// Ahead of the C++ library come clang's own wrappers of it, and behind
		// it the C library: #include_next has to get from one to the next.
		"-nostdlibinc", "-I" + parts.overlay,
		"-stdlib++-isystem" + parts.cxx + "/c++", "-stdlib++-isystem" + parts.cxx + "/c++-target",
	}
	for _, d := range zigLibcIncludes(arch) {
		args = append(args, "-idirafter", parts.zig+"/lib/libc/include/"+d)
	}
	args = append(args, fmt.Sprintf("-D__GLIBC_MINOR__=%d", parts.glibc.Minor), "-ffile-prefix-map="+VirtualRoot+"/=thox/")
	c := &CUDA{Version: cuda, Clang: true, Compiler: Tool{
		Args: args, Env: map[string]string{"LC_ALL": "C"},
		Fingerprint: fingerprint("clang-cuda", path.Base(clang), path.Base(toolkit), parts.glibc.String(),
			path.Base(parts.zig), path.Base(parts.cxx), path.Base(parts.overlay)),
	}}
	math, err := s.cudaMathHeaders(ctx, cuda, arch)
	if err != nil {
		return nil, err
	}
	return c, s.cudaFolders(c, toolkit, math...)
}

// hostParts are the folders that the host half of device code is compiled
// with.
type hostParts struct {
	zig, cxx, overlay string
	glibc             manifests.Version
}

// zigLibcIncludes are zig's folders of glibc's and the kernel's headers, in
// the order in which zig itself looks at them.
func zigLibcIncludes(arch manifests.Arch) []string {
	a := map[manifests.Arch]string{manifests.X86_64: "x86", manifests.AArch64: "aarch64"}[arch]
	return []string{a + "-linux-gnu", "generic-glibc", a + "-linux-any", "any-linux-any"}
}

// clangToolkit lays a toolkit out as clang's --cuda-path expects it: programs
// of this machine, headers and libraries of the target.
func (s *Store) clangToolkit(ctx context.Context, cuda manifests.Version, arch manifests.Arch) (string, error) {
	host := manifests.Arch(hostArch())
	newer := manifests.Version{Major: 13}
	var wheels []wheelPart
	for _, w := range []struct {
		project string
		cuda    manifests.Version
		arch    manifests.Arch
		pick    func(string) bool
	}{
		{"nvidia-cuda-runtime", cuda, arch, isCUDAHeader},
		{"nvidia-cuda-cccl", cuda, arch, isCUDAHeader},
		{"nvidia-cuda-nvcc", cuda, arch, isCUDAHeader},
		{"nvidia-cuda-nvcc", cuda, host, func(name string) bool {
			return name == "bin/ptxas" || strings.HasPrefix(name, "nvvm/libdevice/")
		}},
		{"nvidia-cuda-nvcc", newer, host, func(name string) bool { return name == "bin/fatbinary" }},
	} {
		p, err := s.cudaWheel(ctx, w.project, w.cuda, w.arch)
		if err != nil {
			return "", err
		}
		wheels = append(wheels, wheelPart{p, w.pick})
	}
	return s.wheelsEntry(ctx, fmt.Sprintf("cuda-%s-%s", cuda, arch), "1"+fatbinaryScript, wheels, func(dir string) error {
		// clang's wrapper includes it although no kernel here uses cuRAND.
		if err := os.WriteFile(filepath.Join(dir, "include", "curand_mtgp32_kernel.h"), nil, 0o644); err != nil {
			return err
		}
		return wrapPrograms(dir, fatbinaryScript, "bin/fatbinary")
	})
}

// clangScript makes an entry with a program clang++ that runs the installed
// clang. The entry is named after what that clang says it is.
func (s *Store) clangScript(ctx context.Context) (string, error) {
	program, err := findClangCUDA()
	if err != nil {
		return "", err
	}
	version, err := s.clangVersion(ctx, program)
	if err != nil {
		return "", err
	}
	text := "#!/bin/sh\nPATH=" + clangCUDAPath + "\nexport PATH\nexec " + clangCUDAProgram + " --driver-mode=g++ \"$@\"\n"
	return s.entry(ctx, "clang-cuda-"+fingerprint(text, string(version)), func(dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "version"), append(bytes.Clone(version), '\n'), 0o644); err != nil {
			return err
		}
		return script(dir, "clang++", text)
	})
}

// clangVersion is the first line of what program says of itself.
func (s *Store) clangVersion(ctx context.Context, program string) ([]byte, error) {
	s.clangMu.Lock()
	defer s.clangMu.Unlock()
	if version, ok := s.clang[program]; ok {
		return version, nil
	}
	file := filepath.Join(s.dir, "locks", "clang-version.json")
	read, stamp := s.now(), clangStamp(program)
	if version, ok := readMemo(file, stamp); ok {
		return s.knowClang(program, []byte(version)), nil
	}
	cmd := exec.CommandContext(ctx, program, "--version")
	killGroup(cmd)
	out, err := cmd.Output()
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &Error{"ask " + program + " for its version", err, "reinstall it: apt-get install " + clangCUDAProgram}
	}
	version, _, _ := bytes.Cut(out, []byte("\n"))
	writeMemo(file, stamp, read, string(version))
	return s.knowClang(program, version), nil
}

// knowClang keeps a version for the rest of the command; clangMu is held.
func (s *Store) knowClang(program string, version []byte) []byte {
	if s.clang == nil {
		s.clang = map[string][]byte{}
	}
	s.clang[program] = version
	return version
}

// clangStamp covers the files that decide what clang says of itself: the
// program and the libraries of LLVM that lie where its package puts them. It is
// the zero stamp, so clang is asked each time, for what only stands for clang:
// a script, or a program of another name such as ccache.
func clangStamp(program string) stamp {
	real, err := filepath.EvalSymlinks(program)
	if err != nil || !strings.HasPrefix(filepath.Base(real), "clang") || !isELF(real) {
		return stamp{}
	}
	files := []string{program, real}
	lib := filepath.Join(filepath.Dir(filepath.Dir(real)), "lib")
	for _, name := range []string{"libclang-cpp.so*", "libLLVM*.so*"} {
		found, _ := filepath.Glob(filepath.Join(lib, name))
		files = append(files, found...)
	}
	return stampOf(files...)
}

// isELF reports whether a file begins as a program of this system does.
func isELF(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	var magic [4]byte
	_, err = io.ReadFull(f, magic[:])
	return err == nil && string(magic[:]) == "\x7fELF"
}

func findClangCUDA() (string, error) {
	for _, d := range filepath.SplitList(clangCUDAPath) {
		name := filepath.Join(d, clangCUDAProgram)
		if fi, err := os.Stat(name); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return name, nil
		}
	}
	return "", &Error{"compile CUDA 12", errors.New(clangCUDAProgram + " is not installed; the packages of CUDA 12 hold no nvcc"),
		"install it: apt-get install " + clangCUDAProgram}
}
