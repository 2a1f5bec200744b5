package matrix

import (
	"fmt"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/manifests"
)

// plan fills in the components of a variant: which sections it compiles and
// for which devices.
func (c *Catalogue) plan(v *Variant) (ps manifests.Problems) {
	if v.Name.Framework == manifests.TorchNoarch {
		return nil
	}
	k, b := v.Kernel, v.Compute.Backend
	sections := k.SectionsFor(b)
	var tooNew []string
	for _, s := range sections {
		if b == manifests.CUDA && !s.CUDAMinVer.IsZero() && v.Compute.Version.Compare(s.CUDAMinVer) < 0 {
			tooNew = append(tooNew, fmt.Sprintf("section %q needs CUDA %v", s.Name, s.CUDAMinVer))
			continue
		}
		comp := Component{Section: s}
		var p *manifests.Problem
		switch b {
		case manifests.CUDA:
			comp.Archs, comp.Dropped, p = c.cudaArchs(k, s, v.Compute.Version)
		case manifests.ROCm:
			comp.Archs, comp.Dropped, p = c.rocmArchsFor(k, s)
		}
		if p != nil {
			ps = append(ps, *p)
			continue
		}
		if len(comp.Dropped) > 0 {
			v.Notes = append(v.Notes, fmt.Sprintf("section %q drops %s for %s", s.Name, strings.Join(comp.Dropped, ", "), toolkit(v.Compute)))
		}
		v.Components = append(v.Components, comp)
	}
	v.Notes = append(v.Notes, tooNew...)
	switch {
	case k.TorchNoarch != nil:
		v.Reason = fmt.Sprintf("kernel %q is a noarch one, so nothing binds its %s sections", k.General.Name, b)
	case len(sections) == 0:
		v.Reason = fmt.Sprintf("kernel %q has no section with backend = %q", k.General.Name, b)
	case len(tooNew) == len(sections):
		v.Reason = "nothing left to compile: " + strings.Join(tooNew, ", ")
	}
	return ps
}

func (c *Catalogue) cudaArchs(k *manifests.Kernel, s manifests.Section, cuda manifests.Version) (archs, dropped []string, p *manifests.Problem) {
	supported := c.Capabilities(cuda)
	if s.CUDACapabilities == nil {
		return slices.Clone(supported), nil, nil
	}
	key := manifests.KeyPath("kernel", s.Name, "cuda-capabilities")
	archs, dropped, err := LooseIntersection(s.CUDACapabilities, supported)
	switch {
	case err != nil:
		return nil, nil, &manifests.Problem{Pos: k.Pos(key), Severity: manifests.Error, ID: "matrix/capability", Key: key, Message: fmt.Sprintf("%s: %v", key, err)}
	case len(archs) == 0:
		return nil, nil, &manifests.Problem{
			Pos: k.Pos(key), Severity: manifests.Error, ID: "matrix/empty-archs", Key: key,
			Message: fmt.Sprintf("kernel %q, section %q: CUDA %v can compile none of the requested capabilities %s; it supports %s",
				k.General.Name, s.Name, cuda, strings.Join(s.CUDACapabilities, ", "), strings.Join(supported, ", ")),
			Hint: fmt.Sprintf("add a capability that it supports, set cuda-minver in [%s], or exclude *-%s-* in the workspace's [matrix]",
				manifests.KeyPath("kernel", s.Name), manifests.Compute{Backend: manifests.CUDA, Version: cuda}),
		}
	}
	return archs, dropped, nil
}

func (c *Catalogue) rocmArchsFor(k *manifests.Kernel, s manifests.Section) (archs, dropped []string, p *manifests.Problem) {
	archs = slices.Clone(c.rocmArchs)
	slices.Sort(archs)
	if s.ROCmArchs == nil {
		return archs, nil, nil
	}
	archs = slices.DeleteFunc(archs, func(a string) bool { return !slices.Contains(s.ROCmArchs, a) })
	for _, a := range s.ROCmArchs {
		if !slices.Contains(archs, a) {
			dropped = append(dropped, a)
		}
	}
	if len(archs) == 0 {
		key := manifests.KeyPath("kernel", s.Name, "rocm-archs")
		return nil, nil, &manifests.Problem{
			Pos: k.Pos(key), Severity: manifests.Error, ID: "matrix/empty-archs", Key: key,
			Message: fmt.Sprintf("kernel %q, section %q: ROCm builds support none of the requested architectures %s; they support %s",
				k.General.Name, s.Name, strings.Join(s.ROCmArchs, ", "), strings.Join(c.rocmArchs, ", ")),
			Hint: "add one of them, or take \"rocm\" out of general.backends",
		}
	}
	return archs, dropped, nil
}

// toolkit names a compute for messages: "CUDA 13.0", "ROCm 7.2", "cpu".
func toolkit(c manifests.Compute) string {
	switch c.Backend {
	case manifests.CUDA:
		return "CUDA " + c.Version.String()
	case manifests.ROCm:
		return "ROCm " + c.Version.String()
	case manifests.XPU:
		return "oneAPI " + c.Version.String()
	}
	return string(c.Backend)
}

// Needs lists the tools that a variant's build runs.
func Needs(v Variant) []Need {
	if v.Name.Framework == manifests.TorchNoarch {
		return nil
	}
	need := func(t Tool, ver manifests.Version) Need { return Need{t, ver, v.Platform} }
	if v.Platform.OS == manifests.Darwin {
		if v.Compute.Backend == manifests.Metal {
			return []Need{need(XCMetal, manifests.Version{})}
		}
		return []Need{need(XCRun, manifests.Version{})}
	}
	out := []Need{need(ZigCXX, manifests.Version{})}
	switch ver := v.Compute.Version; v.Compute.Backend {
	case manifests.CUDA:
		if ver.Major < 13 {
			out = append(out, need(ClangCUDA, ver))
		} else {
			out = append(out, need(NVCC, ver))
		}
	case manifests.ROCm:
		out = append(out, need(HIPCC, ver))
	case manifests.XPU:
		out = append(out, need(ICPX, ver))
	}
	return out
}

// String says what is needed, as in "nvcc of CUDA 13.0 for aarch64-linux".
func (n Need) String() string {
	switch n.Tool {
	case XCRun:
		return "clang++ of Xcode"
	case XCMetal:
		return "clang++ and metal of Xcode"
	case NVCC:
		return fmt.Sprintf("nvcc of CUDA %v for %v", n.Version, n.Target)
	case ClangCUDA:
		return fmt.Sprintf("clang with the files of CUDA %v for %v", n.Version, n.Target)
	case HIPCC:
		return fmt.Sprintf("hipcc of ROCm %v", n.Version)
	case ICPX:
		return fmt.Sprintf("icpx of oneAPI %v", n.Version)
	}
	return fmt.Sprintf("%s for %v", n.Tool, n.Target)
}

// Decide sets Buildable and Reason of every variant by asking the probe for
// each tool once. Variants that the kernel itself rules out keep their reason.
func Decide(vs []Variant, probe Probe) {
	asked := map[Need]error{}
	for i := range vs {
		v := &vs[i]
		if v.Buildable = v.Reason == ""; !v.Buildable {
			continue
		}
		var missing []string
		for _, n := range Needs(*v) {
			err, ok := asked[n]
			if !ok {
				err = probe(n)
				asked[n] = err
			}
			if err != nil {
				missing = append(missing, fmt.Sprintf("needs %v: %v", n, err))
			}
		}
		v.Buildable, v.Reason = len(missing) == 0, strings.Join(missing, "; ")
	}
}
