package toolchain

import (
	"context"
	"fmt"
	"strings"

	"github.com/thox-ai/thoxbuild/manifests"
)

// wheelTail is enough for the end record of an archive and most of the central
// directory of a torch wheel (13,000 members).
const wheelTail = 2 << 20

// torchPackage pins the newest patch release of torch X.Y for a platform. The
// headers are the same in every Python's wheel; CPython 3.11's is taken.
func (s *Store) torchPackage(ctx context.Context, torch manifests.Version, to manifests.Platform) (Package, error) {
	platform, begin, end := string(to.Arch), "cp311-cp311-manylinux", string(to.Arch)
	if to.OS == manifests.Darwin {
		platform, begin, end = to.String(), "cp311-cp311-macosx_", "arm64"
	}
	return s.pin(ctx, fmt.Sprintf("torch %s %s", torch, platform), "torch", func(d []Dist) (Dist, string, error) {
		return newestWheel(d, "torch", torch.String()+".", func(tags string) bool {
			return strings.HasPrefix(tags, begin) && strings.HasSuffix(tags, end)
		})
	})
}

// torchHeaders reads torch's headers out of its wheel.
func (s *Store) torchHeaders(ctx context.Context, torch manifests.Version, to manifests.Platform) (string, error) {
	p, err := s.torchPackage(ctx, torch, to)
	if err != nil {
		return "", err
	}
	platform := strings.TrimSuffix(to.String(), "-"+string(manifests.Linux))
	return s.wheelHeaders(ctx, p, fmt.Sprintf("torch-include-%s-%s-%s", p.Version, platform, p.SHA256[:16]), wheelTail, torchHeader)
}

// torchHeader maps an archive member to its place in the entry, "" to skip it.
func torchHeader(name string) string {
	rest, ok := strings.CutPrefix(name, "torch/include/")
	if !ok || strings.HasSuffix(name, ".pyc") {
		return ""
	}
	return "include/" + rest
}
