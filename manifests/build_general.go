package manifests

import (
	"fmt"
	"slices"
	"strings"
)

// edition is how a kernel's file is read.
type edition int

// general reads the [general] table.
func (r *reader) general(n *node, ed edition) (g General) {
	t := r.open(n)
	if t == nil {
		return g
	}
	t.elsewhere = map[string]string{
		"minver":       "torch bounds belong in [torch], CUDA bounds in [general.cuda]",
		"maxver":       "torch bounds belong in [torch], CUDA bounds in [general.cuda]",
		"cuda-minver":  "write minver in [general.cuda]",
		"cuda-maxver":  "write maxver in [general.cuda]",
		"universal":    "write a [torch-noarch] table instead",
		"rocm":         "this backend has no table in [general]",
		"cpu":          "this backend has no table in [general]",
		"metal":        "this backend has no table in [general]",
		"dependencies": "C++ dependencies are \"depends\" of a [kernel.<name>] table, Python ones python-depends here",
	}
	t.get("edition") // read before, to choose the schema
	if g.Name = t.text("name", true); g.Name != "" && !kernelNameRE.MatchString(g.Name) {
		hint := ""
		if fixed := strings.Trim(strings.NewReplacer("_", "-", " ", "-", ".", "-").Replace(strings.ToLower(g.Name)), "-"); kernelNameRE.MatchString(fixed) {
			hint = fmt.Sprintf("write %q", fixed)
		}
		r.errorf(t.n.table.vals["name"], "build/name", hint, "general.name: %q: expected at least two characters of a-z, 0-9 and -, a letter first and no dash last", g.Name)
	}
	v, vn := t.uint("version")
	if g.Version = v; vn == nil {
		t.missingV3(ed, "version", "version = 1")
	}
	if g.License = t.text("license", false); t.n.table.vals["license"] == nil {
		t.missingV3(ed, "license", "license = \"apache-2.0\"")
	} else if g.License != "" && !licenseRE.MatchString(g.License) {
		r.warnf(t.n.table.vals["license"], "build/license", "the Hub knows identifiers such as \"apache-2.0\", \"mit\" and \"other\"", "general.license: %q is not shaped like a license identifier", g.License)
	}
	if list := t.each("backends", func(s string, n *node) {
		if b, ok := r.backend(n, s, Backends); ok {
			if slices.Contains(g.Backends, b) {
				r.warnf(n, "build/duplicate", "", "%s: backend %q is listed twice", n.path, b)
				return
			}
			g.Backends = append(g.Backends, b)
		}
	}); list == nil {
		t.missing("backends", "")
	} else if list.list != nil && len(list.list) == 0 {
		r.errorf(list, "build/empty", "", "general.backends: expected at least one backend, so there is something to build")
	}
	g.Upstream = t.gitURL("upstream")
	if g.Upstream != "" && isSCP(g.Upstream) {
		r.warnf(t.n.table.vals["upstream"], "build/scp-upstream", "write it as ssh://host/path", "general.upstream: loaders 0.14 and 0.15 do not read metadata with an scp-style URL")
	}
	g.Source = t.gitURL("source")
	g.PythonDepends = t.pythonDepends("")
	g.KernelDepends = t.kernelDepends(ed)
	g.Hub = r.hub(t.get("hub"))
	if c := r.open(t.get("cuda")); c != nil {
		lo, _ := c.version("minver")
		hi, hn := c.version("maxver")
		g.CUDA.MinVer, g.CUDA.MaxVer = lo, hi
		r.checkBounds(hn, lo, hi)
		g.CUDA.BackendGeneral = c.backendGeneral(CUDA, ed)
		c.done()
	}
	neuron := r.open(t.get("neuron"))
	if g.Neuron = neuron.backendGeneral(Neuron, ed); len(g.Neuron.PythonDepends) > 0 {
		r.warnf(neuron.n, "build/ignored", "", "general.neuron.python-depends: no loader applies these names")
	}
	neuron.done()
	if tn := t.n.table.vals["tpu"]; ed == 5 || tn == nil {
		tpu := r.open(t.get("tpu"))
		if tpu != nil {
			g.TPU.PythonDepends = tpu.pythonDepends(TPU)
			tpu.done()
		}
	} else {
		t.newer("tpu")
	}
	xpu := r.open(t.get("xpu"))
	g.XPU = xpu.backendGeneral(XPU, ed)
	xpu.done()
	t.done()
	return g
}

// The problems that tell an older form from a broken file.
const (
	// idV3 is the lack of something that the v3 form allows to leave out.
	idV3 = "build/v3-form"
	// idNeeds5 is something that only edition 5 knows.
	idNeeds5 = "build/needs-edition-5"
)

// missingV3 reports the lack of a key that v3 allows to leave out.
func (t *tableReader) missingV3(ed edition, key, add string) {
	id, hint := "build/missing-key", "add "+add
	if ed != 5 {
		id, hint = idV3, hint+"; only the v3 form may leave it out, which `thoxbuild update-build` converts"
	}
	t.errorf(t.n, id, hint, "%s: missing key %q", t.title, key)
}

// newer marks a key that edition 5 has and v4 has not as an error of its own.
func (t *tableReader) newer(key string) {
	if n := t.get(key); n != nil {
		t.report(Problem{
			Pos: n.key, Severity: Error, ID: idNeeds5, Key: n.path,
			Message: fmt.Sprintf("%s: unknown key %q in a file without an edition", t.title, key),
			Hint:    "it came with edition 5; add edition = 5 to [general] or run `thoxbuild update-build`",
		})
	}
}

func (t *tableReader) gitURL(key string) string {
	s := t.text(key, false)
	if s != "" {
		if err := checkGitURL(s); err != nil {
			n := t.n.table.vals[key]
			t.errorf(n, "build/url", "", "%s: %q: %v", n.path, s, err)
		}
	}
	return s
}

func (t *tableReader) backendGeneral(b Backend, ed edition) (g BackendGeneral) {
	if t == nil {
		return g
	}
	g.PythonDepends = t.pythonDepends(b)
	g.KernelDepends = t.kernelDepends(ed)
	return g
}

func (t *tableReader) pythonDepends(b Backend) []string {
	known := pythonDepends[b]
	var seen []string
	t.each("python-depends", func(s string, n *node) {
		switch {
		case !slices.Contains(known, s):
			hint := didYouMean(s, known)
			for other, names := range pythonDepends {
				if slices.Contains(names, s) {
					hint = fmt.Sprintf("%q belongs in [general%s]", s, dotted(other))
				}
			}
			t.errorf(n, "build/python-depends", hint, "%s: unknown package %q; the loader accepts only %s here", n.path, s, oneOf(known))
		case slices.Contains(seen, s):
			t.warnf(n, "build/duplicate", "", "%s: %q is listed twice", n.path, s)
		}
		seen = append(seen, s)
	})
	if seen == nil && t.n.table.vals["python-depends"] != nil {
		seen = []string{}
	}
	return seen
}

func dotted(b Backend) string {
	if b == "" {
		return ""
	}
	return "." + string(b)
}

func (t *tableReader) kernelDepends(ed edition) []KernelDependency {
	const key = "kernel-depends"
	if ed != 5 {
		if t.n.table.vals[key] != nil {
			t.newer(key)
		}
		return nil
	}
	n := t.get(key)
	if n == nil {
		return nil
	}
	if n.list == nil {
		t.errorf(n, "build/wrong-type", "", "%s: expected an array of tables { repo-id, version or revision }, got %s", n.path, n.kind())
		return nil
	}
	out := []KernelDependency{}
	for _, e := range n.list {
		d := t.open(e)
		if d == nil {
			continue
		}
		dep := KernelDependency{RepoID: d.text("repo-id", true), Revision: d.text("revision", false)}
		d.checkRepoID("repo-id", dep.RepoID)
		v, vn := d.uint("version")
		rn := d.n.table.vals["revision"]
		switch {
		case vn != nil && rn != nil:
			t.errorf(e, "build/kernel-depends", "", "%s: version and revision are mutually exclusive", e.path)
		case vn == nil && rn == nil:
			t.errorf(e, "build/kernel-depends", "", "%s: one of version and revision must be specified", e.path)
		}
		if vn != nil {
			dep.Version = &v
		}
		d.done()
		out = append(out, dep)
	}
	return out
}

func (t *tableReader) checkRepoID(key, id string) {
	if t != nil && id != "" && !repoIDRE.MatchString(id) {
		n := t.n.table.vals[key]
		t.errorf(n, "build/repo-id", "", "%s: %q: expected <owner>/<name>", n.path, id)
	}
}

func (r *reader) hub(n *node) (h Hub) {
	t := r.open(n)
	if t == nil {
		return h
	}
	h.RepoID, h.Branch = t.text("repo-id", false), t.text("branch", false)
	t.checkRepoID("repo-id", h.RepoID)
	if err := checkBranch(h.Branch); h.Branch != "" && err != nil {
		r.errorf(t.n.table.vals["branch"], "build/branch", "", "general.hub.branch: %v", err)
	}
	t.done()
	return h
}

// checkBounds reports a lower bound above its upper bound, at the upper one.
func (r *reader) checkBounds(maxNode *node, lo, hi Version) {
	if maxNode != nil && !lo.IsZero() && !hi.IsZero() && lo.Compare(hi) > 0 {
		r.errorf(maxNode, "build/bounds", "both bounds are inclusive and compared as numbers", "%s: %v is below minver %v, so nothing would be built", maxNode.path, hi, lo)
	}
}
