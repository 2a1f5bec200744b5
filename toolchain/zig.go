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
	dir, err := s.wheelEntry(ctx, p, "zig", func(name string) string {
		rest, _ := strings.CutPrefix(name, "ziglang/")
		if rest == name {
			return ""
		}
		return rest
	})
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
