package policy

import (
	_ "embed"
	"strings"
	"sync"

	"github.com/thox-ai/thoxbuild/manifests"
)

//go:embed abi3.txt
var abi3Text string

type abi3Name struct {
	added     manifests.Version
	condition string
}

var abi3 = sync.OnceValue(func() map[string]abi3Name {
	m := map[string]abi3Name{}
	for f := range lines(abi3Text) {
		v := manifests.MustVersion(f[0])
		for _, name := range f[1:] {
			name, cond, _ := strings.Cut(name, "?")
			m[name] = abi3Name{v, cond}
		}
	}
	return m
})

// ABI3Newest is the newest Python release that the table knows of.
var ABI3Newest = sync.OnceValue(func() (newest manifests.Version) {
	for _, n := range abi3() {
		if n.added.Compare(newest) > 0 {
			newest = n.added
		}
	}
	return newest
})

// ABI3 returns the release that put a name into the stable ABI. ok is false
// for a name that is not in it, on that system, at all.
func ABI3(name string, os manifests.OS) (added manifests.Version, ok bool) {
	n, ok := abi3()[name]
	if !ok {
		return n.added, false
	}
	switch n.condition {
	case "":
	case "MS_WINDOWS":
		ok = os == manifests.Windows
	case "HAVE_FORK":
		ok = os != manifests.Windows
	case "PY_HAVE_THREAD_NATIVE_ID":
	default: // builds for debugging, which nobody distributes
		ok = false
	}
	return n.added, ok
}
