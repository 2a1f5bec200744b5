package matrix

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/manifests"
)

// Bounds that hold where a kernel names none.
var (
	defaultCUDAMin  = manifests.Version{Major: 11, Minor: 8}
	defaultTorchMin = manifests.Version{Major: 2, Minor: 0}
	noBound         = manifests.Version{Major: 99, Minor: 9}
)

// Expand lists the variants of a kernel that the catalogue and the
// workspace's overrides allow, sorted. The workspace may be nil.
//
// The error is of type manifests.Problems when the kernel itself is at fault,
// such as a capability list of which a toolkit can compile nothing: building
// for something else than was asked for is never an answer. Whether this host
// can build a variant is left to Decide.
func Expand(k *manifests.Kernel, w *manifests.Workspace) ([]Variant, error) {
	return Default().Expand(k, w)
}

// Expand is the function of the same name for this catalogue.
func (c *Catalogue) Expand(k *manifests.Kernel, w *manifests.Workspace) ([]Variant, error) {
	if w == nil {
		w = &manifests.Workspace{}
	}
	if err := c.checkOverrides(w); err != nil {
		return nil, err
	}
	var out []Variant
	byName := map[manifests.VariantName]int{}
	add := func(v Variant, why string) {
		if why != "" {
			return
		}
		// Rows come oldest torch first: where several make one name, as with
		// the stable ABI, the newest torch compiles it.
		if i, ok := byName[v.Name]; ok {
			v.Status = stronger(out[i].Status, v.Status)
			out[i] = v
			return
		}
		byName[v.Name] = len(out)
		out = append(out, v)
	}
	for _, row := range c.Rows {
		add(c.variant(k, w, row))
		if also, ok := w.StableABI[k.General.Name]; ok {
			add(c.alsoStable(k, w, row, also))
		}
	}
	if k.TorchNoarch != nil {
		for _, v := range noarchVariants(k) {
			if allowed(w, v.Name) == "" {
				out = append(out, v)
			}
		}
	}
	var problems manifests.Problems
	for i := range out {
		problems = append(problems, c.plan(&out[i])...)
	}
	if err := dedupe(problems).Sort().Err(); err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b Variant) int { return compareNames(a.Name, b.Name) })
	return out, nil
}

// checkOverrides refuses a torch that no row has.
func (c *Catalogue) checkOverrides(w *manifests.Workspace) error {
	var ps manifests.Problems
	known := c.Torches()
	for i, v := range w.Matrix.Torch {
		if !slices.Contains(known, v) {
			key := fmt.Sprintf("matrix.torch[%d]", i)
			ps = append(ps, manifests.Problem{Pos: w.Pos(key), Severity: manifests.Error, ID: "matrix/unknown-torch", Key: key,
				Message: fmt.Sprintf("%s: torch %v is not in the catalogue; expected %s", key, v, list(known))})
		}
	}
	return ps.Err()
}

// variant makes the variant of a row, or says why the kernel has none there.
func (c *Catalogue) variant(k *manifests.Kernel, w *manifests.Workspace, row Row) (v Variant, why string) {
	v = Variant{Kernel: k, Name: row.Name(), Torch: row.Torch, Compute: row.Compute, Platform: row.Platform, Status: row.Status, Note: row.Note}
	b := row.Compute.Backend
	if !slices.Contains(k.General.Backends, b) {
		return v, fmt.Sprintf("general.backends does not list %q", b)
	}
	if k.TorchNoarch != nil && len(k.SectionsFor(b)) == 0 {
		return v, "the kernel is a noarch one"
	}
	if b == manifests.CUDA {
		if why := outside("CUDA", row.Compute.Version, k.General.CUDA.MinVer, k.General.CUDA.MaxVer, defaultCUDAMin, "general.cuda"); why != "" {
			return v, why
		}
	}
	if len(w.Matrix.Torch) > 0 && !slices.Contains(w.Matrix.Torch, row.Torch) {
		return v, fmt.Sprintf("the workspace's matrix.torch does not list %v", row.Torch)
	}
	switch {
	case k.TVMFFI != nil:
		if row.TVMFFI.IsZero() {
			return v, "this row has no tvm-ffi"
		}
		v.Name.Framework, v.Name.Version = manifests.TVMFFI, row.TVMFFI
		v.Status = derived(row.Status)
	case k.Torch != nil:
		if why := outside("torch", row.Torch, k.Torch.MinVer, k.Torch.MaxVer, defaultTorchMin, "torch"); why != "" {
			return v, why
		}
		if floor, ok := k.Torch.StableABI.For(b); ok {
			if row.Torch.Compare(floor) < 0 {
				return v, fmt.Sprintf("torch %v is older than the stable-abi floor %v", row.Torch, floor)
			}
			v.Name.Framework, v.Name.Version = manifests.TorchStableABI, floor
			v.Status = derived(row.Status)
		}
	}
	return v, allowed(w, v.Name)
}

// alsoStable makes the stable-ABI variant of a row that the workspace asks for
// beside what the kernel's own file says.
func (c *Catalogue) alsoStable(k *manifests.Kernel, w *manifests.Workspace, row Row, also manifests.StableABI) (Variant, string) {
	floor, ok := also.For(row.Compute.Backend)
	if !ok || k.Torch == nil {
		return Variant{}, "the workspace asks for no stable-ABI form"
	}
	own, torch := *k, *k.Torch
	torch.StableABI = manifests.StableABI{All: floor}
	own.Torch = &torch
	v, why := c.variant(&own, w, row)
	v.Kernel, v.Status = k, Extra
	return v, why
}

// derived is the status of a name for which the Hub has no required list.
func derived(s Status) Status {
	if s == Required {
		return Official
	}
	return s
}

func stronger(a, b Status) Status {
	order := []Status{Required, Official, Extra}
	return order[min(slices.Index(order, a), slices.Index(order, b))]
}

// outside says which inclusive bound keeps a version out, or nothing.
func outside(what string, v, lo, hi, defaultLo manifests.Version, table string) string {
	loName, hiName := table+".minver", table+".maxver"
	if lo.IsZero() {
		lo, loName = defaultLo, "the default minver"
	}
	if hi.IsZero() {
		hi = noBound
	}
	switch {
	case v.Compare(lo) < 0:
		return fmt.Sprintf("%s %v is below %s %v", what, v, loName, lo)
	case v.Compare(hi) > 0:
		return fmt.Sprintf("%s %v is above %s %v", what, v, hiName, hi)
	}
	return ""
}

// allowed says which of the workspace's globs keeps a name out, or nothing.
func allowed(w *manifests.Workspace, name manifests.VariantName) string {
	for _, glob := range w.Matrix.Exclude {
		if Match(glob, name.String()) {
			return fmt.Sprintf("the workspace's matrix.exclude has %q", glob)
		}
	}
	if len(w.Matrix.Include) > 0 && !slices.ContainsFunc(w.Matrix.Include, func(g string) bool { return Match(g, name.String()) }) {
		return "the workspace's matrix.include does not match it"
	}
	return ""
}

// noarchVariants are the Python-only variants: one for each backend that has
// nothing to compile.
func noarchVariants(k *manifests.Kernel) (out []Variant) {
	for _, b := range k.General.Backends {
		if len(k.SectionsFor(b)) > 0 {
			continue
		}
		v := Variant{Kernel: k, Compute: manifests.Compute{Backend: b}, Status: Extra}
		v.Name = manifests.VariantName{Framework: manifests.TorchNoarch, Compute: v.Compute}
		if slices.Contains(requiredNoarch, b) {
			v.Status = Required
		}
		out = append(out, v)
	}
	return out
}

// requiredNoarch are the backends of the Hub's list for noarch kernels, of
// which one is enough.
var requiredNoarch = []manifests.Backend{manifests.CPU, manifests.CUDA, manifests.Metal, manifests.ROCm, manifests.XPU}

// Match reports whether a variant's name matches a glob in which *, ? and
// [...] are special. An invalid pattern matches nothing.
func Match(glob, name string) bool {
	ok, err := path.Match(glob, name)
	return ok && err == nil
}

func dedupe(ps manifests.Problems) manifests.Problems {
	seen := map[string]bool{}
	return slices.DeleteFunc(ps, func(p manifests.Problem) bool {
		was := seen[p.String()]
		seen[p.String()] = true
		return was
	})
}

func list[T fmt.Stringer](items []T) string {
	texts := make([]string, len(items))
	for i, t := range items {
		texts[i] = t.String()
	}
	return strings.Join(texts, ", ")
}
