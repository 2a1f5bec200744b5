package policy

import (
	_ "embed"
	"strings"
	"sync"

	"github.com/thox-ai/thoxbuild/manifests"
)

//go:embed shims.txt
var shimsText string

var shims = sync.OnceValue(func() map[string]manifests.Version {
	m := map[string]manifests.Version{}
	for f := range lines(shimsText) {
		for _, name := range f[1:] {
			m[name] = manifests.MustVersion(f[0])
		}
	}
	return m
})

// ShimAdded returns the torch release that added a function of the C shim; it
// is zero for one that the table does not have, which is older than 2.10 or
// no shim function at all.
func ShimAdded(name string) manifests.Version { return shims()[name] }

// IsShimName reports whether the name has the form of a C shim function.
func IsShimName(name string) bool {
	return strings.HasPrefix(name, "aoti_torch_") || strings.HasPrefix(name, "torch_")
}
