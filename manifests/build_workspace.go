package manifests

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

var fullVersionRE = regexp.MustCompile(`^[0-9]+(\.[0-9]+){1,3}((a|b|rc|\.dev|\.post)[0-9]+)?$`)

// workspace reads the workspace form.
func (r *reader) workspace(file string, root *node) *Workspace {
	w := &Workspace{File: file, ISA: map[string]map[string]ISAUnit{}, Dispatch: map[string]Dispatch{}, StableABI: map[string]StableABI{}, positions: r.positions}
	top := r.open(root)
	const kernelOnly = "this table belongs in a kernel's own build.toml"
	top.elsewhere = map[string]string{"general": kernelOnly, "torch": kernelOnly, "torch-noarch": kernelOnly, "tvm-ffi": kernelOnly}

	if t := r.open(top.get("workspace")); t != nil {
		list := t.each("kernels", func(s string, n *node) {
			if hint, err := checkRelPath(s); err != nil {
				r.errorf(n, "build/path", strings.Replace(hint, "copy the file into the kernel's folder", "kernels lie below the workspace", 1), "%s: %v", n.path, err)
				return
			}
			s = path.Clean(s)
			if slices.Contains(w.Kernels, s) {
				r.errorf(n, "build/duplicate", "", "%s: %q is listed twice", n.path, s)
			}
			w.Kernels = append(w.Kernels, s)
		})
		switch {
		case list == nil:
			t.missing("kernels", "as in kernels = [\"kernels-src/my-kernel\"]")
		case list.list != nil && len(list.list) == 0:
			r.errorf(list, "build/empty", "", "workspace.kernels: expected at least one folder")
		}
		t.done()
	}
	if t := r.open(top.get("toolchain")); t != nil {
		if w.Toolchain.Zig = t.text("zig", false); w.Toolchain.Zig != "" && !fullVersionRE.MatchString(w.Toolchain.Zig) {
			r.errorf(t.n.table.vals["zig"], "build/version", "", "toolchain.zig: %q: expected a full release such as \"0.17.1\"", w.Toolchain.Zig)
		}
		w.Toolchain.Glibc, _ = t.version("glibc")
		if s := t.text("cuda", false); s != "" {
			w.Toolchain.CUDA = CUDASource(s)
			choices := []string{string(CUDAWheels), string(CUDAInstalled)}
			if !slices.Contains(choices, s) {
				r.errorf(t.n.table.vals["cuda"], "build/unknown-value", didYouMean(s, choices), "toolchain.cuda: %q: expected %s", s, oneOf(choices))
			}
		}
		t.done()
	}
	if t := r.open(top.get("matrix")); t != nil {
		w.Matrix = r.matrixOverrides(t)
		t.done()
	}
	if t := r.open(top.get("publish")); t != nil {
		w.Publish = Publish{Repo: t.text("repo", false), To: t.text("to", false), Variants: r.globs(t, "variants")}
		t.checkRepoID("repo", w.Publish.Repo)
		t.done()
	}
	if t := r.open(top.get("kernel")); t != nil {
		for _, name := range t.n.table.keys {
			r.kernelOverrides(w, name, t.get(name))
		}
	}
	top.done()
	return w
}

func (r *reader) matrixOverrides(t *tableReader) (m MatrixOverrides) {
	if n := t.get("torch"); n != nil {
		if n.list == nil {
			r.errorf(n, "build/wrong-type", "", "matrix.torch: expected an array of versions, got %s", n.kind())
		} else if len(n.list) == 0 {
			r.errorf(n, "build/empty", "remove the key to build for every torch of the catalogue", "matrix.torch: an empty list leaves nothing to build")
		}
		for _, e := range n.list {
			v := r.versionOf(e)
			if !v.IsZero() && slices.Contains(m.Torch, v) {
				r.warnf(e, "build/duplicate", "", "%s: %v is listed twice", e.path, v)
			}
			m.Torch = append(m.Torch, v)
		}
	}
	m.Include, m.Exclude = r.globs(t, "include"), r.globs(t, "exclude")
	return m
}

// globs reads a list of patterns for variant names.
func (r *reader) globs(t *tableReader, key string) (out []string) {
	t.each(key, func(s string, n *node) {
		if _, err := path.Match(s, ""); err != nil || s == "" {
			r.errorf(n, "build/glob", "*, ? and [...] are special", "%s: %q is not a valid pattern", n.path, s)
		}
		out = append(out, s)
	})
	return out
}

// kernelOverrides reads [kernel.<name>]: stable-abi, isa.<section> and
// dispatch.
func (r *reader) kernelOverrides(w *Workspace, kernel string, n *node) {
	t := r.open(n)
	if t == nil {
		return
	}
	t.elsewhere = map[string]string{"backend": "sections belong in the kernel's own build.toml", "src": "sources belong in the kernel's own build.toml"}
	if n := t.get("stable-abi"); n != nil {
		w.StableABI[kernel] = r.stableABI(n, 5, Backends, Version{})
	}
	if isa := r.open(t.get("isa")); isa != nil {
		for _, section := range isa.n.table.keys {
			s := r.open(isa.get(section))
			if s == nil {
				continue
			}
			u := ISAUnit{Isolate: s.boolean("isolate")}
			list := r.symbols(s, "entries", &u.Entries)
			if list == nil {
				s.missing("entries", "list the symbols that the dispatcher calls")
			} else if list.list != nil && len(list.list) == 0 {
				r.errorf(list, "build/empty", "", "%s: without an entry nothing could call this unit", list.path)
			}
			s.done()
			if w.ISA[kernel] == nil {
				w.ISA[kernel] = map[string]ISAUnit{}
			}
			w.ISA[kernel][section] = u
		}
	}
	if d := r.open(t.get("dispatch")); d != nil {
		var x Dispatch
		guards, dispatchers := r.symbols(d, "guards", &x.Guards), r.symbols(d, "dispatchers", &x.Dispatchers)
		if guards == nil && dispatchers == nil {
			d.missing("guards", "or dispatchers: list the symbols that test the CPU")
		}
		d.done()
		w.Dispatch[kernel] = x
	}
	t.done()
}

// symbols reads a list of symbol names into to.
func (r *reader) symbols(t *tableReader, key string, to *[]string) *node {
	return t.each(key, func(sym string, e *node) {
		if sym == "" || strings.ContainsAny(sym, " \t\n,;\"'") {
			r.errorf(e, "build/symbol", "", "%s: %q is not a symbol name", e.path, sym)
		} else if slices.Contains(*to, sym) {
			r.warnf(e, "build/duplicate", "", "%s: %q is listed twice", e.path, sym)
		}
		*to = append(*to, sym)
	})
}

// checkMembers compares a workspace with the kernels that it names.
func (w *Workspace) checkMembers(kernels []*Kernel) (ps Problems) {
	byName := map[string]*Kernel{}
	var names []string
	for i, k := range kernels {
		if other := byName[k.General.Name]; other != nil {
			ps = append(ps, Problem{Pos: w.Pos(fmt.Sprintf("workspace.kernels[%d]", i)), Severity: Error, ID: "build/duplicate", Key: fmt.Sprintf("workspace.kernels[%d]", i),
				Message: fmt.Sprintf("%s and %s are both named %q", other.File, k.File, k.General.Name)})
		}
		byName[k.General.Name] = k
		names = append(names, k.General.Name)
	}
	unknown := func(kernel string) bool {
		key := displayPath([]string{"kernel", kernel})
		if byName[kernel] == nil {
			ps = append(ps, Problem{Pos: w.Pos(key), Severity: Error, ID: "build/unknown-kernel", Key: key, Hint: didYouMean(kernel, names),
				Message: fmt.Sprintf("[%s]: no kernel of this workspace has the name %q; expected %s", key, kernel, oneOf(names))})
			return true
		}
		return false
	}
	for kernel := range w.Dispatch {
		if w.ISA[kernel] == nil {
			unknown(kernel)
		}
	}
	for kernel := range w.StableABI {
		if _, also := w.Dispatch[kernel]; w.ISA[kernel] == nil && !also && unknown(kernel) {
			continue
		}
		if k := byName[kernel]; k != nil && k.Torch == nil {
			key := displayPath([]string{"kernel", kernel, "stable-abi"})
			ps = append(ps, Problem{Pos: w.Pos(key), Severity: Error, ID: "build/stable-abi", Key: key,
				Message: fmt.Sprintf("%s: only [torch] has a stable ABI, and %s has no such table", key, k.File)})
		}
	}
	for kernel, sections := range w.ISA {
		if unknown(kernel) {
			continue
		}
		k := byName[kernel]
		for section := range sections {
			key := displayPath([]string{"kernel", kernel, "isa", section})
			var cpu []string
			for _, s := range k.SectionsFor(CPU) {
				cpu = append(cpu, s.Name)
			}
			if !slices.Contains(cpu, section) {
				hint := didYouMean(section, cpu)
				if s, ok := k.Section(section); ok {
					hint = fmt.Sprintf("that section is for %s; only cpu sections are ISA units", s.Backend)
				}
				ps = append(ps, Problem{Pos: w.Pos(key), Severity: Error, ID: "build/unknown-section", Key: key, Hint: hint,
					Message: fmt.Sprintf("[%s]: kernel %q has no cpu section %q; expected %s", key, kernel, section, oneOf(cpu))})
			}
		}
	}
	return ps.Sort()
}
