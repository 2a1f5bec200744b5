package policy

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/thox-ai/thoxbuild/manifests"
)

//go:embed manylinux.txt
var manylinuxText string

// Manylinux is one manylinux policy.
type Manylinux struct {
	Name    string
	Aliases []string
	// versions is indexed by architecture, then family.
	versions map[manifests.Arch]map[string][]string
	libs     map[string]bool
	private  map[string]map[string]bool
}

var manylinux = sync.OnceValue(func() []*Manylinux {
	var all []*Manylinux
	var p, before *Manylinux
	for f := range lines(manylinuxText) {
		switch f[0] {
		case "policy":
			before = p
			p = &Manylinux{Name: f[1], Aliases: f[2:], versions: map[manifests.Arch]map[string][]string{}, libs: map[string]bool{}, private: map[string]map[string]bool{}}
			all = append(all, p)
		case "libs":
			if f[1] == "=" {
				p.libs = before.libs
			} else {
				p.libs = set(f[1:])
			}
		case "private":
			if f[2] == "=" {
				p.private[f[1]] = before.private[f[1]]
			} else {
				p.private[f[1]] = set(f[2:])
			}
		default:
			arch := manifests.Arch(f[0])
			if p.versions[arch] == nil {
				p.versions[arch] = map[string][]string{}
			}
			p.versions[arch][f[1]] = f[2:]
		}
	}
	return all
})

func set(names []string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// FindManylinux returns the policy of that name or alias. A release between
// two policies ("manylinux_2_32") gets the older one, which promises less.
func FindManylinux(name string) (*Manylinux, error) {
	for _, p := range manylinux() {
		if p.Name == name || slices.Contains(p.Aliases, name) {
			return p, nil
		}
	}
	want, ok := glibc(name)
	var best *Manylinux
	for _, p := range manylinux() {
		if v, _ := glibc(p.Name); ok && v.Compare(want) < 0 {
			best = p
		}
	}
	if best == nil {
		return nil, fmt.Errorf("manylinux policy %q: expected a name such as manylinux_2_28", name)
	}
	return best, nil
}

// glibc reads the C library's release out of manylinux_X_Y.
func glibc(name string) (manifests.Version, bool) {
	rest, ok := strings.CutPrefix(name, "manylinux_")
	if !ok {
		return manifests.Version{}, false
	}
	v, err := manifests.ParseVersion(strings.Replace(rest, "_", ".", 1))
	return v, err == nil
}

// Compare orders policies from old to new.
func (p *Manylinux) Compare(q *Manylinux) int {
	a, _ := glibc(p.Name)
	b, _ := glibc(q.Name)
	return a.Compare(b)
}

// GLIBC is the C library release that the policy is named after.
func (p *Manylinux) GLIBC() manifests.Version {
	v, _ := glibc(p.Name)
	return v
}

// Covers reports whether the policy has facts about the architecture.
func (p *Manylinux) Covers(arch manifests.Arch) bool { return p.versions[arch] != nil }

// Library reports whether every system of the policy has the library.
func (p *Manylinux) Library(name string) bool { return p.libs[name] }

// Private reports whether the symbol is internal to the library.
func (p *Manylinux) Private(lib, symbol string) bool { return p.private[lib][symbol] }

// Allows judges a version such as GLIBC_2.34. known is false when its family
// is not the policy's business (libcudart.so.13); top is the highest version
// that is allowed, for messages. Versions are compared as names: GLIBC_PRIVATE
// and GLIBC_ABI_DT_RELR are not numbers.
func (p *Manylinux) Allows(arch manifests.Arch, version string) (ok, known bool, top string) {
	family, rest, cut := strings.Cut(version, "_")
	allowed, known := p.versions[arch][family]
	if !cut || !known {
		return false, false, ""
	}
	for _, v := range allowed {
		if v == rest {
			ok = true
		}
		if v[0] >= '0' && v[0] <= '9' && (top == "" || compareDotted(v, top) > 0) {
			top = v
		}
	}
	if top != "" {
		top = family + "_" + top
	}
	return ok, true, top
}

// IsNumber reports whether what follows the family is a dotted number.
func IsNumber(version string) bool {
	_, rest, ok := strings.Cut(version, "_")
	return ok && rest != "" && strings.Trim(rest, "0123456789.") == ""
}

// compareDotted orders 3.4.9 before 3.4.10.
func compareDotted(a, b string) int {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	return slices.CompareFunc(x, y, func(p, q string) int {
		m, _ := strconv.Atoi(p)
		n, _ := strconv.Atoi(q)
		return m - n
	})
}
