package manifests

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// frameworkTables are the tables of which a kernel has exactly one.
var frameworkTables = []string{"torch", "torch-noarch", "tvm-ffi"}

func (r *reader) torch(n *node, ed edition, backends []Backend) *TorchTable {
	t := r.open(n)
	if t == nil {
		return nil
	}
	t.elsewhere = map[string]string{
		"universal":   "write a [torch-noarch] table instead",
		"python-name": "the package's name follows from general.name",
		"depends":     "C++ dependencies belong in a [kernel.<name>] table",
		"src-dir":     "list the files in src",
	}
	out := &TorchTable{Src: t.sources("src"), Include: t.paths("include"), PyExt: t.pyExt(), CxxFlags: t.texts("cxx-flags")}
	var hi *node
	out.MinVer, _ = t.version("minver")
	out.MaxVer, hi = t.version("maxver")
	r.checkBounds(hi, out.MinVer, out.MaxVer)
	if n := t.get("stable-abi"); n != nil {
		out.StableABI = r.stableABI(n, ed, backends, out.MaxVer)
	}
	t.done()
	return out
}

func (r *reader) stableABI(n *node, ed edition, backends []Backend, maxTorch Version) (s StableABI) {
	floor := func(n *node) Version {
		v := r.versionOf(n)
		switch {
		case v.IsZero():
		case v.Compare(minStableABI) < 0:
			r.errorf(n, "build/stable-abi", "", "%s: %v is too old; torch has a stable ABI for extensions since %v", n.path, v, minStableABI)
		case !maxTorch.IsZero() && v.Compare(maxTorch) > 0:
			r.errorf(n, "build/stable-abi", "", "%s: %v is above torch.maxver %v, so no torch can compile it", n.path, v, maxTorch)
		}
		return v
	}
	if n.table == nil {
		s.All = floor(n)
		return s
	}
	if ed != 5 {
		r.errorf(n, idNeeds5, "a table of backends came with edition 5; add edition = 5 to [general] or run `thoxbuild update-build`", "%s: expected a version in a string, got a table", n.path)
		return s
	}
	s.ByBackend = map[Backend]Version{}
	for _, k := range n.table.keys {
		e := n.table.vals[k]
		r.positions[e.path] = e.pos
		b, ok := r.backend(e, k, Backends)
		if !ok {
			continue
		}
		if !slices.Contains(backends, b) {
			r.warnf(e, "build/ignored", "", "%s: backend %q is not in general.backends, so this floor is ignored", e.path, b)
		}
		s.ByBackend[b] = floor(e)
	}
	return s
}

func (r *reader) torchNoarch(n *node) *TorchNoarchTable {
	t := r.open(n)
	if t == nil {
		return nil
	}
	t.elsewhere = map[string]string{
		"cuda-capabilities": "this table spells it cuda_capabilities, with an underscore",
		"rocm-archs":        "this table spells it rocm_archs, with an underscore",
		"src":               "a noarch kernel compiles nothing; sources belong under [torch]",
		"minver":            "torch bounds exist only in [torch]",
		"maxver":            "torch bounds exist only in [torch]",
	}
	out := &TorchNoarchTable{PyExt: t.pyExt(), CUDACapabilities: t.capabilities("cuda_capabilities"), ROCmArchs: t.gfxNames("rocm_archs")}
	t.done()
	return out
}

func (r *reader) tvmFFI(n *node) *TVMFFITable {
	t := r.open(n)
	if t == nil {
		return nil
	}
	t.elsewhere = map[string]string{
		"minver":     "torch bounds exist only in [torch]",
		"maxver":     "torch bounds exist only in [torch]",
		"stable-abi": "only [torch] has a stable ABI",
	}
	out := &TVMFFITable{Src: t.sources("src"), Include: t.paths("include"), PyExt: t.pyExt(), CxxFlags: t.texts("cxx-flags")}
	if t.n.table.vals["src"] == nil {
		t.missing("src", "")
	}
	t.done()
	return out
}

// compiledBackends are the backends that a [kernel.<name>] table can have.
var compiledBackends = []Backend{CPU, CUDA, Metal, ROCm, XPU}

// backendKeys maps the keys of one backend's sections to that backend.
var backendKeys = map[string]Backend{
	"cuda-capabilities": CUDA, "cuda-flags": CUDA, "cuda-minver": CUDA,
	"rocm-archs": ROCm, "hip-flags": ROCm, "sycl-flags": XPU,
}

func (r *reader) section(name string, n *node) (s Section, ok bool) {
	t := r.open(n)
	if t == nil {
		return s, false
	}
	s.Name = name
	if !sectionNameRE.MatchString(name) {
		r.report(Problem{Pos: n.key, Severity: Error, ID: "build/name", Key: n.path,
			Message: fmt.Sprintf("%s: expected a section name of letters, digits, \"_\", \"-\" and \".\"", t.title)})
	}
	t.elsewhere = map[string]string{
		"language": "this is a v1 key; write backend instead",
		"minver":   "torch bounds belong in [torch], CUDA bounds in cuda-minver or [general.cuda]",
		"maxver":   "torch bounds belong in [torch], CUDA bounds in [general.cuda]",
	}
	bn := t.get("backend")
	if bn == nil {
		t.missing("backend", "add backend = \"cuda\" or another of "+backendNames(compiledBackends))
	} else if str, isText := t.stringOf(bn); isText {
		s.Backend, _ = r.backend(bn, str, compiledBackends)
	}
	if t.each("depends", func(d string, e *node) {
		if !slices.Contains(dependencies, d) {
			t.errorf(e, "build/unknown-value", didYouMean(d, dependencies), "%s: unknown dependency %q; expected %s", e.path, d, oneOf(dependencies))
		} else if slices.Contains(s.Depends, d) {
			t.warnf(e, "build/duplicate", "", "%s: %q is listed twice", e.path, d)
		}
		s.Depends = append(s.Depends, d)
	}) == nil {
		t.missing("depends", "write depends = [] when the section needs only its own files")
	}
	if s.Src = t.sources("src"); t.n.table.vals["src"] == nil {
		t.missing("src", "")
	} else if sn := t.n.table.vals["src"]; sn.list != nil && len(sn.list) == 0 {
		r.errorf(sn, "build/empty", "", "%s: expected at least one file", sn.path)
	}
	s.Include, s.CxxFlags = t.paths("include"), t.texts("cxx-flags")
	switch s.Backend {
	case CUDA:
		s.CUDACapabilities, s.CUDAFlags = t.capabilities("cuda-capabilities"), t.texts("cuda-flags")
		s.CUDAMinVer, _ = t.version("cuda-minver")
	case ROCm:
		s.ROCmArchs, s.HIPFlags = t.gfxNames("rocm-archs"), t.texts("hip-flags")
	case XPU:
		s.SYCLFlags = t.texts("sycl-flags")
	case "":
		// The backend is wrong already; don't guess which keys are.
		for k := range backendKeys {
			t.known = append(t.known, k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(backendKeys)) {
		if b := backendKeys[k]; s.Backend != "" && s.Backend != b {
			t.elsewhere[k] = fmt.Sprintf("this key is for %s sections, and this one is for %s", b, s.Backend)
		}
	}
	t.done()
	return s, true
}

func backendNames(list []Backend) string {
	names := make([]string, len(list))
	for i, b := range list {
		names[i] = string(b)
	}
	return strings.Join(names, ", ")
}

// sources reads a list of files and refuses those outside of the kernel's
// folder and those listed twice.
func (t *tableReader) sources(key string) []string {
	list := t.paths(key)
	if t == nil || t.n.table.vals[key] == nil {
		return list
	}
	first := map[string]*node{}
	for _, e := range t.n.table.vals[key].list {
		s, ok := e.scalar.(string)
		if !ok {
			continue
		}
		if was := first[s]; was == nil {
			first[s] = e
		} else if isHeader(s) {
			t.warnf(e, "build/duplicate", "", "%s: %q is listed twice, first on line %d", e.path, s, was.pos.Line)
		} else {
			t.errorf(e, "build/duplicate", "it would be compiled and linked twice", "%s: %q is listed twice, first on line %d", e.path, s, was.pos.Line)
		}
	}
	return list
}

// paths reads a list of paths inside the kernel's folder.
func (t *tableReader) paths(key string) []string {
	var out []string
	n := t.each(key, func(s string, e *node) {
		if hint, err := checkRelPath(s); err != nil {
			t.errorf(e, "build/path", hint, "%s: %v", e.path, err)
		}
		out = append(out, s)
	})
	if n != nil && out == nil {
		out = []string{}
	}
	return out
}

func (t *tableReader) pyExt() []string {
	var out []string
	n := t.each("pyext", func(s string, e *node) {
		if fixed := strings.TrimLeft(s, "*."); fixed != s || s == "" || strings.ContainsAny(s, "/\\") {
			t.errorf(e, "build/pyext", fmt.Sprintf("write %q", fixed), "%s: %q: expected an extension without its dot", e.path, s)
		}
		out = append(out, s)
	})
	if n != nil && out == nil {
		out = []string{}
	}
	return out
}

// capabilities reads a list of CUDA capabilities. An empty list is an error:
// it names no device, and a compiler that gets no list builds for an old one
// that nobody asked for.
func (t *tableReader) capabilities(key string) []string {
	return t.archList(key, func(s string) (hint string, ok bool) {
		if capabilityRE.MatchString(s) {
			return "", true
		}
		for _, fixed := range []string{
			strings.Replace(strings.ToLower(s), "+ptx", "+PTX", 1),
			strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(s), "sm_"), "compute_"),
		} {
			digits := strings.TrimRight(fixed, "af")
			if len(digits) > 1 && !strings.Contains(digits, ".") && strings.Trim(digits, "0123456789") == "" {
				fixed = digits[:len(digits)-1] + "." + fixed[len(digits)-1:]
			}
			if fixed != s && capabilityRE.MatchString(fixed) {
				return fmt.Sprintf("write %q", fixed), false
			}
		}
		return "as in \"9.0\", \"9.0a\", \"10.0f\" or \"12.0+PTX\"", false
	}, "a CUDA capability")
}

func (t *tableReader) gfxNames(key string) []string {
	return t.archList(key, func(s string) (string, bool) {
		if gfxRE.MatchString(s) {
			return "", true
		}
		return "as in \"gfx90a\" or \"gfx1100\"", false
	}, "a ROCm architecture")
}

func (t *tableReader) archList(key string, check func(string) (string, bool), what string) []string {
	var out []string
	n := t.each(key, func(s string, e *node) {
		if hint, ok := check(s); !ok {
			t.errorf(e, "build/arch", hint, "%s: %q is not %s", e.path, s, what)
		} else if slices.Contains(out, s) {
			t.warnf(e, "build/duplicate", "", "%s: %q is listed twice", e.path, s)
		}
		out = append(out, s)
	})
	if n == nil {
		return nil
	}
	if n.list != nil && len(n.list) == 0 {
		t.errorf(n, "build/empty-archs", "remove the key to build for all that the toolkit supports", "%s: an empty list names no device to build for", n.path)
	}
	if out == nil {
		out = []string{}
	}
	return out
}
