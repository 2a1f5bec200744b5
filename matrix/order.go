package matrix

import (
	"cmp"
	"slices"

	"github.com/thox-ai/thoxbuild/manifests"
)

// compareNames is the order in which variants are listed: by framework
// version, backend, toolkit and platform. Versions compare as numbers.
func compareNames(a, b manifests.VariantName) int {
	rank := func(v manifests.VariantName) int { return slices.Index(manifests.Backends, v.Compute.Backend) }
	return cmp.Or(
		cmp.Compare(a.Framework, b.Framework),
		a.Version.Compare(b.Version),
		cmp.Compare(rank(a), rank(b)),
		a.Compute.Version.Compare(b.Compute.Version),
		cmp.Compare(a.Platform.OS, b.Platform.OS)*-1,
		cmp.Compare(a.Platform.Arch, b.Platform.Arch)*-1,
	)
}
