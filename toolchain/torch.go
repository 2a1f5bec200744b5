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
func (s *Store) torchPackage(ctx context.Context, torch manifests.Version, arch manifests.Arch) (Package, error) {
	key := fmt.Sprintf("torch %s %s", torch, arch)
	p, err := s.pin(ctx, key, "torch", func(d []Dist) (Dist, string, error) {
		return newestWheel(d, "torch", torch.String()+".", func(tags string) bool {
			return strings.HasPrefix(tags, "cp311-cp311-manylinux") && strings.HasSuffix(tags, string(arch))
		})
	})
	return p, err
}

// torchHeaders reads torch's headers out of its wheel.
func (s *Store) torchHeaders(ctx context.Context, torch manifests.Version, arch manifests.Arch) (string, error) {
	p, err := s.torchPackage(ctx, torch, arch)
	if err != nil {
		return "", err
	}
	return s.wheelHeaders(ctx, p, fmt.Sprintf("torch-include-%s-%s-%s", p.Version, arch, p.SHA256[:16]), wheelTail, torchHeader)
}

// torchHeader maps an archive member to its place in the entry, "" to skip it.
func torchHeader(name string) string {
	rest, ok := strings.CutPrefix(name, "torch/include/")
	if !ok || strings.HasSuffix(name, ".pyc") {
		return ""
	}
	return "include/" + rest
}
