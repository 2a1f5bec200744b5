package matrix

import (
	"fmt"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/manifests"
)

// Missing is a build that the Hub requires of a kernel and that does not come
// out of it here.
type Missing struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// MissingRequired lists the required builds that are not among the variants,
// or are but can't be built, sorted by name, each with its reason. The
// variants are those of Expand for the same kernel and workspace, after
// Decide.
//
// The Hub asks for the builds of the backends that a kernel lists. It has no
// list for stable ABI and tvm-ffi kernels, and asks of a noarch kernel for
// one backend at least.
func MissingRequired(k *manifests.Kernel, w *manifests.Workspace, vs []Variant) []Missing {
	return Default().MissingRequired(k, w, vs)
}

// MissingRequired is the function of the same name for this catalogue.
func (c *Catalogue) MissingRequired(k *manifests.Kernel, w *manifests.Workspace, vs []Variant) []Missing {
	if w == nil {
		w = &manifests.Workspace{}
	}
	have := map[string]Variant{}
	for _, v := range vs {
		have[v.Name.String()] = v
	}
	if k.TorchNoarch != nil {
		return missingNoarch(vs)
	}
	if k.TVMFFI != nil {
		return nil
	}
	var out []Missing
	for _, row := range c.Rows {
		b := row.Compute.Backend
		if row.Status != Required || !slices.Contains(k.General.Backends, b) {
			continue
		}
		if _, stable := k.Torch.StableABI.For(b); stable {
			continue
		}
		name := row.Name().String()
		v, ok := have[name]
		switch {
		case ok && v.Buildable:
			continue
		case ok:
			out = append(out, Missing{name, v.Reason})
		default:
			_, why := c.variant(k, w, row)
			if why == "" {
				why = "not selected"
			}
			out = append(out, Missing{name, why})
		}
	}
	slices.SortFunc(out, func(a, b Missing) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func missingNoarch(vs []Variant) []Missing {
	if slices.ContainsFunc(vs, func(v Variant) bool { return v.Status == Required && v.Buildable }) {
		return nil
	}
	names := make([]string, len(requiredNoarch))
	for i, b := range requiredNoarch {
		names[i] = "torch-" + string(b)
	}
	return []Missing{{"torch-*", fmt.Sprintf("none of %s can be built", strings.Join(names, ", "))}}
}
