package manifests

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Print writes the kernel as a build.toml of edition 5. Parsing the result
// gives the same kernel again. Optional keys that are not set are left out.
func (k *Kernel) Print() []byte {
	p := &printer{}
	g := k.General
	p.header("general")
	p.text("name", g.Name)
	p.line("version", fmt.Sprint(g.Version))
	p.line("edition", "5")
	p.text("license", g.License)
	p.texts("backends", toStrings(g.Backends))
	p.text("upstream", g.Upstream)
	p.text("source", g.Source)
	p.backendGeneral(BackendGeneral{g.PythonDepends, g.KernelDepends})
	p.sub("general.hub", func() {
		p.text("repo-id", g.Hub.RepoID)
		p.text("branch", g.Hub.Branch)
	})
	p.sub("general.cuda", func() {
		p.version("minver", g.CUDA.MinVer)
		p.version("maxver", g.CUDA.MaxVer)
		p.backendGeneral(g.CUDA.BackendGeneral)
	})
	p.sub("general.neuron", func() { p.backendGeneral(g.Neuron) })
	p.sub("general.tpu", func() { p.backendGeneral(g.TPU) })
	p.sub("general.xpu", func() { p.backendGeneral(g.XPU) })
	switch {
	case k.Torch != nil:
		p.torch(k.Torch)
	case k.TorchNoarch != nil:
		p.header("torch-noarch")
		p.texts("pyext", k.TorchNoarch.PyExt)
		p.texts("cuda_capabilities", k.TorchNoarch.CUDACapabilities)
		p.texts("rocm_archs", k.TorchNoarch.ROCmArchs)
	case k.TVMFFI != nil:
		t := k.TVMFFI
		p.header("tvm-ffi")
		p.texts("src", t.Src)
		p.texts("include", t.Include)
		p.texts("pyext", t.PyExt)
		p.texts("cxx-flags", t.CxxFlags)
	}
	for _, s := range k.Sections {
		p.section(s)
	}
	return p.Bytes()
}

// printer writes TOML; values that are not set write nothing.
type printer struct{ bytes.Buffer }

func (p *printer) header(title string) {
	if p.Len() > 0 {
		p.WriteByte('\n')
	}
	fmt.Fprintf(p, "[%s]\n", title)
}

// sub writes a table whose header is left out when the table is empty.
func (p *printer) sub(title string, body func()) {
	before := p.Len()
	p.header(title)
	head := p.Len()
	if body(); p.Len() == head {
		p.Truncate(before)
	}
}

func (p *printer) line(key, value string) { fmt.Fprintf(p, "%s = %s\n", key, value) }

func (p *printer) text(key, value string) {
	if value != "" {
		p.line(key, quoteTOML(value))
	}
}

func (p *printer) version(key string, v Version) {
	if !v.IsZero() {
		p.line(key, quoteTOML(v.String()))
	}
}

// texts writes an array, one element a line when it is long.
func (p *printer) texts(key string, list []string) {
	if list == nil {
		return
	}
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = quoteTOML(s)
	}
	if one := strings.Join(quoted, ", "); len(one) < 80 {
		p.line(key, "["+one+"]")
		return
	}
	p.line(key, "[\n  "+strings.Join(quoted, ",\n  ")+",\n]")
}

func (p *printer) backendGeneral(g BackendGeneral) {
	p.texts("python-depends", g.PythonDepends)
	if g.KernelDepends == nil {
		return
	}
	items := make([]string, len(g.KernelDepends))
	for i, d := range g.KernelDepends {
		pin := "revision = " + quoteTOML(d.Revision)
		if d.Version != nil {
			pin = fmt.Sprintf("version = %d", *d.Version)
		}
		items[i] = fmt.Sprintf("{ repo-id = %s, %s }", quoteTOML(d.RepoID), pin)
	}
	p.line("kernel-depends", "["+strings.Join(items, ", ")+"]")
}

func (p *printer) torch(t *TorchTable) {
	p.header("torch")
	p.texts("src", t.Src)
	p.texts("include", t.Include)
	p.texts("pyext", t.PyExt)
	p.version("minver", t.MinVer)
	p.version("maxver", t.MaxVer)
	p.texts("cxx-flags", t.CxxFlags)
	p.version("stable-abi", t.StableABI.All)
	if t.StableABI.ByBackend != nil {
		p.header("torch.stable-abi")
		for _, b := range slices.Sorted(maps.Keys(t.StableABI.ByBackend)) {
			p.version(string(b), t.StableABI.ByBackend[b])
		}
	}
}

func (p *printer) section(s Section) {
	p.header("kernel." + quoteKey(s.Name))
	p.text("backend", string(s.Backend))
	p.texts("depends", notNil(s.Depends))
	p.texts("src", s.Src)
	p.texts("include", s.Include)
	p.texts("cxx-flags", s.CxxFlags)
	p.texts("cuda-capabilities", s.CUDACapabilities)
	p.texts("cuda-flags", s.CUDAFlags)
	p.version("cuda-minver", s.CUDAMinVer)
	p.texts("rocm-archs", s.ROCmArchs)
	p.texts("hip-flags", s.HIPFlags)
	p.texts("sycl-flags", s.SYCLFlags)
}

func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func toStrings[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}
