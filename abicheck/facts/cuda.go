package facts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
	"github.com/thox-ai/thoxbuild/abicheck/fatbin"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
	"github.com/thox-ai/thoxbuild/manifests"
)

var cudaPass = rule.Pass{
	Name: "cuda",
	Run:  checkCUDA,
	Rules: []rule.Info{{
		ID: "CUDA-ARCHS", Severity: rule.Error,
		Title: "holds other device code than its metadata claims",
		Explain: `The loader refuses a device that no entry of metadata.json's backend.archs
serves, and lets every other one in. An architecture that the metadata claims
and the file lacks ends in "no kernel image is available" at the first launch;
one that the file has and the metadata lacks is refused for nothing.

The architectures are read from the headers of the fat binary, which are never
compressed.`,
	}, {
		ID: "CUDA-PTX", Severity: rule.Error,
		Title: "holds PTX that the variant's oldest driver cannot compile",
		Explain: `PTX is compiled by the driver. Its language version must not be newer than what
the driver of the variant's CUDA release knows, or loading fails with
"unsupported toolchain" on a device that needs it. Build with the nvcc of the
variant's CUDA release.`,
	}},
}

// ErrNoDeviceCode says that a file holds no fat binary.
var ErrNoDeviceCode = errors.New("no CUDA device code")

// FatbinArchs lists the CUDA architectures and PTX versions in an ELF library
// or object. A file without any gives ErrNoDeviceCode.
func FatbinArchs(f *elffile.File) ([]fatbin.Entry, error) {
	var all []fatbin.Entry
	found := false
	for i := range f.Sections {
		s := &f.Sections[i]
		if s.Name != ".nv_fatbin" && s.Name != "__nv_relfatbin" {
			continue
		}
		found = true
		r, err := f.Reader(s)
		if err != nil {
			return nil, err
		}
		entries, err := fatbin.Read(io.NewSectionReader(r, 0, r.Size()), r.Size())
		if err != nil {
			return nil, err
		}
		all = append(all, entries...)
	}
	if !found {
		return nil, ErrNoDeviceCode
	}
	slices.SortFunc(all, fatbin.Entry.Compare)
	return slices.Compact(all), nil
}

func checkCUDA(_ context.Context, s *rule.Subject, _ *rule.Options) ([]rule.Finding, error) {
	if !linked(s) {
		return nil, nil
	}
	var meta *manifests.Metadata
	if s.Package != nil {
		meta = s.Package.Metadata
	}
	entries, err := FatbinArchs(s.ELF)
	if errors.Is(err, ErrNoDeviceCode) {
		if meta != nil && meta.Backend.Type == manifests.CUDA && meta.ID != "" && strings.HasPrefix(s.Name, meta.ID+".") {
			c := collect(s)
			c.add("CUDA-ARCHS", rule.Error, "holds no device code although it is a CUDA kernel", "compile its .cu files with nvcc")
			return c.done(), nil
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c := collect(s)
	if meta != nil && meta.Backend.Type == manifests.CUDA {
		compareArchs(c, entries, meta.Backend.Archs)
	}
	if s.Want.Compute.Backend == manifests.CUDA {
		if limit, ok := fatbin.MaxISA(s.Want.Compute.Version); ok {
			for _, e := range entries {
				if e.PTX && e.ISA.Compare(limit) > 0 {
					c.add("CUDA-PTX", rule.Error, fmt.Sprintf("holds PTX %v for compute_%d%s; the driver of CUDA %v knows PTX %v", e.ISA, e.Arch, e.Suffix, s.Want.Compute.Version, limit),
						fmt.Sprintf("build with nvcc %v, or without +PTX", s.Want.Compute.Version))
				}
			}
		}
	}
	return c.done(), nil
}

func compareArchs(c *collector, entries []fatbin.Entry, claimed []string) {
	have := map[string]bool{}
	for _, e := range entries {
		have[e.Capability()] = true
	}
	if len(claimed) == 0 {
		c.add("CUDA-ARCHS", rule.Warning, "metadata.json has no backend.archs; the file holds "+strings.Join(capabilities(entries), ", "),
			"write the architectures into metadata.json")
		return
	}
	want := map[string]bool{}
	for _, a := range claimed {
		// "9.0+PTX" asks for machine code and PTX.
		base, ptx := strings.CutSuffix(a, "+PTX")
		for _, name := range map[bool][]string{true: {base, base + "+PTX"}, false: {base}}[ptx] {
			want[name] = true
			if !have[name] {
				c.add("CUDA-ARCHS", rule.Error, fmt.Sprintf("metadata.json claims %s; the file holds %s", name, strings.Join(capabilities(entries), ", ")),
					"build for that architecture, or remove it from the metadata")
			}
		}
	}
	for _, e := range entries {
		if name := e.Capability(); !want[name] {
			sev := rule.Error
			if e.PTX {
				sev = rule.Warning
			}
			c.add("CUDA-ARCHS", sev, fmt.Sprintf("holds code for %s, which metadata.json does not claim, so the loader refuses such a device", name),
				"add it to backend.archs, or do not build it")
		}
	}
}

func capabilities(entries []fatbin.Entry) (names []string) {
	for _, e := range entries {
		names = append(names, e.Capability())
	}
	return names
}
