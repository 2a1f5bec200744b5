package manifests

import (
	"fmt"
	"slices"
	"strings"
)

// Build is a parsed build.toml: a kernel or a workspace, never both.
type Build struct {
	Kernel    *Kernel
	Workspace *Workspace
	// Warnings are the problems that don't keep the file from being used.
	Warnings Problems
}

// ParseBuild reads the bytes of a build.toml, whichever form and edition it
// has. The name of the file is used in positions only; nothing on disk is
// looked at (Load does that). The error holds every problem of the file and is
// of type Problems.
func ParseBuild(file string, data []byte) (*Build, error) {
	root, prob := parseTOML(file, data)
	if prob != nil {
		return nil, Problems{*prob}
	}
	r := &reader{positions: map[string]Pos{}}
	b := &Build{}
	if root.table.vals["workspace"] != nil {
		b.Workspace = r.workspace(file, root)
	} else {
		b.Kernel = r.kernel(file, root)
	}
	r.problems.Sort()
	if err := r.problems.Err(); err != nil {
		return nil, r.problems
	}
	b.Warnings = r.problems
	return b, nil
}

// kernel reads the kernel form. The result is only of use when no error was
// reported.
func (r *reader) kernel(file string, root *node) *Kernel {
	k := &Kernel{File: file, Edition: 5, positions: r.positions}
	top := r.open(root)
	top.elsewhere = map[string]string{
		"toolchain": "this table belongs in the workspace's build.toml",
		"matrix":    "this table belongs in the workspace's build.toml",
		"publish":   "this table belongs in the workspace's build.toml",
		"edition":   "edition is a key of [general]",
		"name":      "name is a key of [general]",
		"extension": "this table is from before v1; name the framework as [torch]",
	}
	gn := top.get("general")
	if gn == nil {
		r.report(Problem{Pos: Pos{file, 1, 1}, Severity: Error, ID: "build/missing-key", Key: "general",
			Message: "missing table [general]; expected a kernel with [general] or a workspace with [workspace]"})
	}
	ed, stop := r.edition(gn)
	if stop {
		return k
	}
	k.Edition = int(ed)
	if old := r.recognizeOld(root, gn, ed); old {
		return k
	}
	if gn != nil {
		k.General = r.general(gn, ed)
	}
	r.framework(k, top, ed)
	if kn := top.get("kernel"); kn != nil {
		if kt := r.open(kn); kt != nil {
			for _, name := range kt.n.table.keys {
				if s, ok := r.section(name, kt.get(name)); ok {
					k.Sections = append(k.Sections, s)
				}
			}
		}
	}
	slices.SortFunc(k.Sections, func(a, b Section) int { return strings.Compare(a.Name, b.Name) })
	top.done()
	r.crossCheck(k, root)
	return k
}

// edition chooses the schema: 5 or, without the key, 4. stop is true for an
// edition that this program is too old for, where more complaints would only
// be noise.
func (r *reader) edition(general *node) (ed edition, stop bool) {
	if general == nil || general.table == nil {
		return 5, false
	}
	n := general.table.vals["edition"]
	if n == nil {
		return 4, false
	}
	v, ok := n.scalar.(int64)
	switch {
	case !ok:
		r.errorf(n, "build/edition", "write edition = 5", "general.edition: expected the integer 5, got %s", n.kind())
	case v > 5:
		r.errorf(n, "build/edition", "use a newer thoxbuild", "general.edition: edition %d is newer than this program knows; expected 5", v)
		return 5, true
	case v != 5:
		r.errorf(n, "build/edition", "write edition = 5; files of older editions have no such key", "general.edition: edition %d does not exist; expected 5", v)
	}
	return 5, false
}

// recognizeOld reports files of the first two editions, which differ so much
// that complaints about single keys would not help.
func (r *reader) recognizeOld(root, general *node, ed edition) bool {
	if ed != 4 || general == nil || general.table == nil {
		return false
	}
	var first *node
	for _, path := range [][]string{{"general", "universal"}, {"general", "cuda-minver"}, {"general", "cuda-maxver"}, {"torch", "universal"}} {
		if t := root.table.vals[path[0]]; t != nil && t.table != nil && t.table.vals[path[1]] != nil && first == nil {
			first = t.table.vals[path[1]]
		}
	}
	v1 := first != nil && strings.HasPrefix(first.path, "torch")
	if kernels := root.table.vals["kernel"]; kernels != nil && kernels.table != nil {
		untagged := 0
		for _, name := range kernels.table.keys {
			s := kernels.table.vals[name]
			if s.table == nil {
				return false
			}
			if s.table.vals["language"] != nil {
				first, v1 = s.table.vals["language"], true
			}
			if s.table.vals["backend"] == nil {
				untagged++
			}
		}
		bare := general.table.vals["backends"] == nil && general.table.vals["version"] == nil
		if first == nil && bare && len(kernels.table.keys) > 0 {
			first, v1 = general, untagged == len(kernels.table.keys)
		}
	}
	if first == nil {
		return false
	}
	// A file that names its backends is a later one with a stray old key.
	if general.table.vals["backends"] != nil {
		return false
	}
	name := "v2"
	if v1 {
		name = "v1"
	}
	r.report(Problem{
		Pos: first.key, Severity: Error, ID: "build/edition-" + name, Key: first.path,
		Message: fmt.Sprintf("this is a %s file, which no kernel-builder since 0.14.0 reads", name),
		Hint:    "write it as edition 5: general.version, general.license and general.backends are new, and every [kernel.<name>] has a backend",
	})
	return true
}

// framework reads the one framework table.
func (r *reader) framework(k *Kernel, top *tableReader, ed edition) {
	var found []*node
	for _, name := range frameworkTables {
		if n := top.get(name); n != nil {
			found = append(found, n)
		}
	}
	k.Torch = r.torch(top.n.table.vals["torch"], ed, k.General.Backends)
	k.TorchNoarch = r.torchNoarch(top.n.table.vals["torch-noarch"])
	k.TVMFFI = r.tvmFFI(top.n.table.vals["tvm-ffi"])
	if len(found) == 0 {
		id, hint := "build/missing-key", ""
		if ed != 5 {
			id, hint = idV3, "only the v3 form may leave it out, which `thoxbuild update-build` converts to [torch-noarch]"
		}
		r.report(Problem{Pos: Pos{k.File, 1, 1}, Severity: Error, ID: id,
			Message: "missing framework table; expected [torch], [torch-noarch] or [tvm-ffi]", Hint: hint})
	}
	slices.SortFunc(found, func(a, b *node) int { return a.offset - b.offset })
	for _, extra := range found[min(1, len(found)):] {
		r.report(Problem{Pos: extra.key, Severity: Error, ID: "build/two-frameworks", Key: extra.path,
			Message: fmt.Sprintf("a second framework table [%s]; a kernel has exactly one, and [%s] is on line %d", extra.path, found[0].path, found[0].key.Line)})
	}
}

// crossCheck compares the tables with each other.
func (r *reader) crossCheck(k *Kernel, root *node) {
	backends := root.path2("general", "backends")
	for _, b := range k.General.Backends {
		if k.Torch == nil && k.TVMFFI == nil || backends == nil || len(k.SectionsFor(b)) > 0 {
			continue
		}
		at := backends
		for _, e := range backends.list {
			if e.scalar == string(b) {
				at = e
			}
		}
		r.warnf(at, "build/backend-without-section", fmt.Sprintf("add a [kernel.<name>] table with backend = %q", b),
			"%s: no section compiles anything for %q, so its variants can't be built", at.path, b)
	}
	compiled := map[string]string{} // backend and file -> section
	record := func(owner string, b Backend, src []string, n *node) {
		for i, f := range src {
			id := string(b) + "\x00" + f
			if was, ok := compiled[id]; ok && was != owner && !isHeader(f) && n != nil && i < len(n.list) {
				r.warnf(n.list[i], "build/duplicate", "two objects of one source can define the same symbols", "%s: %q is compiled for %s by [%s] too", n.list[i].path, f, b, was)
			}
			compiled[id] = owner
		}
	}
	for _, s := range k.Sections {
		n := root.path2("kernel", s.Name)
		if n == nil || n.table == nil || s.Backend == "" {
			continue
		}
		if k.General.Backends != nil && !slices.Contains(k.General.Backends, s.Backend) {
			r.warnf(n.table.vals["backend"], "build/section-without-backend", fmt.Sprintf("add %q to general.backends", s.Backend),
				"%s: backend %q is not in general.backends, so this section is never built", n.path, s.Backend)
		}
		if k.TorchNoarch != nil {
			r.warnf(n, "build/section-in-noarch", "use [torch] with a src that binds it", "%s: a [torch-noarch] kernel has no binding source, so this section can't be built", n.path)
		}
		if hi := k.General.CUDA.MaxVer; !s.CUDAMinVer.IsZero() && !hi.IsZero() && s.CUDAMinVer.Compare(hi) > 0 {
			v := n.table.vals["cuda-minver"]
			r.warnf(v, "build/bounds", "", "%s: %v is above general.cuda.maxver %v, so this section is never built", v.path, s.CUDAMinVer, hi)
		}
		record("kernel."+s.Name, s.Backend, s.Src, n.table.vals["src"])
	}
	if k.Torch != nil {
		for _, b := range k.General.Backends {
			record("torch", b, k.Torch.Src, root.path2("torch", "src"))
		}
		n := root.table.vals["torch"]
		src := n.table.vals["src"]
		if (src == nil || src.list != nil && len(src.list) == 0) && len(k.Sections) > 0 {
			r.warnf(n, "build/empty", "", "torch.src: no binding source, so nothing registers the compiled sections' operators")
		}
	}
}

// path2 returns the node two keys down, or nil.
func (n *node) path2(a, b string) *node {
	t := n.table.vals[a]
	if t == nil || t.table == nil {
		return nil
	}
	return t.table.vals[b]
}
