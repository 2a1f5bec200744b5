package facts

import (
	"context"
	"fmt"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/policy"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
	"github.com/thox-ai/thoxbuild/manifests"
)

var torchPass = rule.Pass{
	Name: "torch",
	Run:  checkTorch,
	Rules: []rule.Info{{
		ID: "TORCH-STABLE", Severity: rule.Error,
		Title: "uses torch outside the stable ABI that the variant promises",
		Explain: `A torch-stable-abi variant loads into every torch from its floor on. It may use
the C shim (aoti_torch_*, torch_*) as far as the floor had it, and the headers
of torch::stable and torch::headeronly, which compile into the file. Any other
name of at::, c10::, torch:: or caffe2:: changes with each torch release.

Mangled names are parsed, so typeinfo, vtables, guard variables, templates
(whose readable form begins with the return type) and names that only take a
torch type as template argument are all seen. Shim functions are compared with
the release that added them, and with the exports of the floor's own torch
where its table is known.

Compile with -DTORCH_TARGET_VERSION for the floor and use torch/csrc/stable.`,
	}, {
		ID: "TORCH-UNDEF", Severity: rule.Error,
		Title: "needs a symbol that this torch release does not export",
		Explain: `Every undefined symbol without a version must come from a library that the file
needs. torch's symbols are looked up in the table of what that release really
exports. A missing one makes the import fail with "undefined symbol".

Where every needed library is known (torch, the C and C++ runtimes), any other
undefined name is reported too: a forgotten source file shows here. Weak
references may stay unresolved and are left out.

The package index has one CUDA build of each release. A file for another CUDA is
held against that one: torch's own functions are the same in both. Such a
finding is likely, not certain, and says so.

Build against the headers of the same torch release as the variant's name.`,
	}, {
		ID: "CXX11-ABI", Severity: rule.Error,
		Title: "passes the old std::string to torch",
		Explain: `Since 2.7 torch on Linux is built with the new C++ ABI, where std::string is
std::__cxx11::basic_string. A torch symbol that takes the old one exists in no
such build. Compile with -D_GLIBCXX_USE_CXX11_ABI=1.`,
	}},
}

func checkTorch(_ context.Context, s *rule.Subject, o *rule.Options) ([]rule.Finding, error) {
	var names []undefinedName
	var needed []string
	switch {
	case linked(s):
		syms, err := s.ELF.DynSymbols()
		if err != nil {
			return nil, err
		}
		d, err := s.ELF.Dynamic()
		if err != nil {
			return nil, err
		}
		needed = d.Needed
		for i := range syms {
			if y := &syms[i]; y.Undefined() && y.Name != "" && y.Version == "" {
				names = append(names, undefinedName{y.Name, y.Bind == weakBind})
			}
		}
	case s.MachO != nil:
		syms, err := s.MachO.Symbols()
		if err != nil {
			return nil, err
		}
		for i := range syms {
			if y := &syms[i]; y.Undefined() {
				names = append(names, undefinedName{strings.TrimPrefix(y.Name, "_"), y.WeakRef()})
			}
		}
	default:
		return nil, nil
	}
	c := collect(s)
	if floor := s.Want.StableABI; floor != nil {
		exports, err := exportsOf(s, o, *floor, needed)
		if err != nil {
			return nil, err
		}
		checkStable(c, names, *floor, exports)
		return c.done(), nil
	}
	if s.Want.Torch == nil {
		return nil, nil
	}
	exports, err := exportsOf(s, o, *s.Want.Torch, needed)
	if err != nil {
		return nil, err
	}
	closed := s.ELF != nil && allKnown(needed)
	cxx := contains(needed, "libstdc++.so.6")
	for _, n := range names {
		scope := torchScope(n.name)
		if scope != "" && s.ELF != nil && oldString(n.name) {
			c.add("CXX11-ABI", rule.Error, fmt.Sprintf("needs %s with the old std::string; torch %v has only the new one", n.name, *s.Want.Torch),
				"compile with -D_GLIBCXX_USE_CXX11_ABI=1").Symbol = n.name
			continue
		}
		if n.weak || exports == nil || exports.Has(n.name) {
			continue
		}
		var f *rule.Finding
		switch {
		case scope != "" || policy.IsShimName(n.name):
			f = c.add("TORCH-UNDEF", rule.Error, fmt.Sprintf("needs %s, which torch %v does not export", n.name, *s.Want.Torch),
				fmt.Sprintf("build against the headers of torch %v", *s.Want.Torch))
		case closed && !runtimeName(n.name, cxx):
			f = c.add("TORCH-UNDEF", rule.Error, fmt.Sprintf("needs %s, which no library that it needs exports", n.name),
				"add the source or library that defines it")
		default:
			continue
		}
		f.Symbol = n.name
		if set, ok := exports.(rule.StandIn); ok && set.Of() != "" {
			f.Confidence = rule.Likely
			f.Detail = append(f.Detail, "the exports are those of the release's "+set.Of()+" build")
		}
	}
	return c.done(), nil
}

type undefinedName struct {
	name string
	weak bool
}

func checkStable(c *collector, names []undefinedName, floor manifests.Version, exports rule.SymbolSet) {
	for _, n := range names {
		if scope := torchScope(n.name); scope != "" {
			c.add("TORCH-STABLE", rule.Error, fmt.Sprintf("uses %s, part of torch's unstable C++ interface (%s::)", n.name, scope),
				"use torch/csrc/stable and torch/headeronly instead").Symbol = n.name
			continue
		}
		if !policy.IsShimName(n.name) {
			continue
		}
		added := policy.ShimAdded(n.name)
		switch {
		case added.Compare(floor) > 0:
			c.add("TORCH-STABLE", rule.Error, fmt.Sprintf("uses %s, which torch has since %v; the variant promises %v", n.name, added, floor),
				fmt.Sprintf("compile with -DTORCH_TARGET_VERSION=0x%02x%02x000000000000, or raise the floor to %v", floor.Major, floor.Minor, added)).Symbol = n.name
		case exports != nil && !n.weak && !exports.Has(n.name):
			c.add("TORCH-STABLE", rule.Error, fmt.Sprintf("uses %s, which torch %v does not export", n.name, floor),
				"use a function of the C shim that this torch has").Symbol = n.name
		}
	}
}

func exportsOf(s *rule.Subject, o *rule.Options, v manifests.Version, needed []string) (rule.SymbolSet, error) {
	if o.TorchExports == nil {
		return nil, nil
	}
	compute, platform := s.Want.Compute, s.Want.Platform
	if compute.Backend == "" {
		compute.Backend = backendOf(needed)
	}
	if platform == (manifests.Platform{}) && s.ELF != nil {
		platform = manifests.Platform{Arch: archOf(s), OS: manifests.Linux}
	}
	if platform == (manifests.Platform{}) && s.MachO != nil && s.MachO.Arch() == "arm64" {
		platform = manifests.Platform{Arch: manifests.AArch64, OS: manifests.Darwin}
	}
	return o.TorchExports(v, compute, platform)
}

// backendOf tells which build of torch a file without a variant's name is for,
// by the libraries that it needs. It is empty for one that has no table.
func backendOf(needed []string) manifests.Backend {
	backend := manifests.CPU
	for _, lib := range needed {
		switch {
		case strings.Contains(lib, "hip"), strings.Contains(lib, "xpu"):
			return ""
		case strings.Contains(lib, "cuda"):
			backend = manifests.CUDA
		}
	}
	return backend
}

// systemRuntime are the needed libraries all of whose symbols have versions.
var systemRuntime = map[string]bool{
	"libc.so.6": true, "libm.so.6": true, "libdl.so.2": true, "librt.so.1": true, "libpthread.so.0": true,
	"libstdc++.so.6": true, "libgcc_s.so.1": true, "libgomp.so.1": true, "libmvec.so.1": true, "libatomic.so.1": true,
	"ld-linux-x86-64.so.2": true, "ld-linux-aarch64.so.1": true,
}

// allKnown reports whether every needed library is torch's own or a runtime
// with versions, so that the origin of each name can be told.
func allKnown(needed []string) bool {
	if len(needed) == 0 {
		return false
	}
	torch := false
	for _, lib := range needed {
		ours := strings.HasPrefix(lib, "libtorch") || strings.HasPrefix(lib, "libc10")
		torch = torch || ours
		if !ours && !systemRuntime[lib] && !strings.HasPrefix(lib, "libcudart.so.") {
			return false
		}
	}
	return torch
}

// runtimeName reports names that come from Python, the compiler's runtime, or
// an unversioned reference to the C++ library.
func runtimeName(name string, cxx bool) bool {
	if strings.HasPrefix(name, "Py") || strings.HasPrefix(name, "_Py") || strings.HasPrefix(name, "__") || strings.HasPrefix(name, "_Unwind_") || strings.HasPrefix(name, "_ITM_") || strings.HasPrefix(name, "GOMP_") || strings.HasPrefix(name, "omp_") {
		return true
	}
	return cxx && (strings.Contains(name, "St") || strings.HasPrefix(name, "_Zn") || strings.HasPrefix(name, "_Zd")) && strings.HasPrefix(name, "_Z")
}

func contains(list []string, name string) bool {
	for _, s := range list {
		if s == name {
			return true
		}
	}
	return false
}
