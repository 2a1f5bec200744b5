package toolchain

import (
	"context"
	"os"
	"runtime"
	"strings"

	"github.com/thox-ai/thoxbuild/manifests"
)

// DefaultZig is the compiler release that the recipes in this package were
// proven with: clang 22 and glibc stubs for every version.
const DefaultZig = "0.17.1"

// hostArch is this machine's architecture as wheels spell it.
func hostArch() string {
	if runtime.GOARCH == "arm64" {
		return string(manifests.AArch64)
	}
	return string(manifests.X86_64)
}

// zig unpacks the compiler and returns its folder.
func (s *Store) zig(ctx context.Context, version string) (string, error) {
	if version == "" {
		version = DefaultZig
	}
	p, err := s.pin(ctx, "ziglang "+version+" "+hostArch(), "ziglang", func(d []Dist) (Dist, string, error) {
		return newestWheel(d, "ziglang", version+".", func(tags string) bool {
			return strings.Contains(tags, "manylinux") && strings.Contains(tags, hostArch())
		})
	})
	if err != nil {
		return "", err
	}
	dir, err := s.wheelEntry(ctx, p, "zig", zigMember)
	if err != nil {
		return "", err
	}
	// Some wheels lose the mode bits.
	exe := s.Real(dir + "/zig")
	if fi, err := os.Stat(exe); err == nil && fi.Mode()&0o111 == 0 {
		err := os.Chmod(exe, 0o755)
		if err != nil {
			return "", s.writeError("make zig executable", err)
		}
	}
	return dir, nil
}

// targetTriple is zig's name for a Linux target with the oldest glibc that the
// result may need.
func targetTriple(arch manifests.Arch, glibc manifests.Version) string {
	return string(arch) + "-linux-gnu." + glibc.String()
}

// zigMember chooses what a kit needs of the compiler's wheel, 3,000 of its
// 20,000 files: the program, clang's own headers, glibc's headers and sources
// for the architectures of Linux variants, and what libcompiler_rt.a is made
// from. The rest is for other systems, other C libraries and programs in Zig.
//
// The name of the entry does not tell the choice. One that is made larger
// needs another name.
func zigMember(name string) string {
	rest, ok := strings.CutPrefix(name, "ziglang/")
	if !ok {
		return ""
	}
	switch rest {
	case "zig", "LICENSE", "lib/compiler_rt.zig":
		return rest
	}
	for _, dir := range []string{"lib/include/", "lib/compiler_rt/", "lib/std/", "lib/libc/glibc/"} {
		if strings.HasPrefix(rest, dir) {
			return rest
		}
	}
	if target, ok := strings.CutPrefix(rest, "lib/libc/include/"); ok {
		switch target, _, _ = strings.Cut(target, "/"); target {
		case "generic-glibc", "any-linux-any", "x86-linux-any", "x86-linux-gnu", "aarch64-linux-any", "aarch64-linux-gnu":
			return rest
		}
	}
	return ""
}
