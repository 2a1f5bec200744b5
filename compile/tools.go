package compile

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/matrix"
)

// Tools gives the tools for a variant, or says what is missing and how to get
// it. It is called once for each variant while a plan is made.
type Tools func(matrix.Variant) (*Toolset, error)

// Toolset is how one variant is compiled and linked. Paths are virtual: they
// name the same thing on every machine, and the executor knows where it lies.
type Toolset struct {
	// CXX compiles host C++: the program and the flags that do not depend on
	// the source, among them the target and the folders of the C and C++
	// libraries.
	CXX Tool
	// Torch are the header folders of the variant's torch.
	Torch Headers
	// TorchStandard is the C++ standard that those headers need, such as
	// "c++20".
	TorchStandard string
	// Python are the header folders of Python; nil when there are none, which
	// is fine: the generated registration.h needs none.
	Python *Headers
	// Device compiles .cu, .hip or SYCL sources; nil where the variant has none.
	Device *DeviceTool
	// DeviceHost are the header folders that host C++ of the backend sees
	// beside torch's, such as those of the CUDA runtime.
	DeviceHost *Headers
	// Metal compiles .metal sources.
	Metal *MetalTool
	// Link makes the library.
	Link Linker
	// Relocate merges objects into one (ld -r); it is needed only for an
	// isolated ISA unit with more than one source.
	Relocate *Tool
	// Dependencies are the header folders of what a section names in depends
	// (cutlass_3_9 and so on) apart from torch.
	Dependencies map[string]Headers
}

// Tool is a program with the arguments that always go with it.
type Tool struct {
	// Args starts with the program.
	Args []string
	Env  map[string]string
	// Fingerprints identify the tool and everything that it reads by itself:
	// name to digest or version. They are part of the key of each action.
	Fingerprints map[string]string
}

// Headers are flags that add header folders, and what identifies their text.
type Headers struct {
	Flags        []string
	Fingerprints map[string]string
}

// DeviceDialect is how a device compiler is spoken to.
type DeviceDialect string

// The device compilers that compile speaks to.
const (
	NVCC      DeviceDialect = "nvcc"
	ClangCUDA DeviceDialect = "clang-cuda"
	HIPCC     DeviceDialect = "hipcc"
	ICPX      DeviceDialect = "icpx"
)

// DeviceTool compiles device code.
type DeviceTool struct {
	Tool
	Dialect DeviceDialect
	// HostStd is the newest C++ standard that it knows, 17 or 20; 0 means 20.
	HostStd int
	// Hipify turns CUDA sources into HIP for HIPCC: it takes file names and
	// writes each below hip/, a .cu file as .hip.
	Hipify *Tool
}

// MetalTool is Xcode's compiler for .metal sources: xcrun with its arguments
// up to the tool's name.
type MetalTool struct {
	Tool
	// Host compiles the Objective-C++ sources.
	Host Tool
}

// Linker is the linker's command line around the objects.
type Linker struct {
	Tool
	// After follows the objects: libraries and what else the order matters for.
	After []string
	// Ready, when set, makes what After names and is not there yet. A link that
	// is cached does not ask.
	Ready func(context.Context) error
	// Early, when set, is tried before that.
	Early *EarlyLink
}

// EarlyLink is how a library can be linked before everything that its command
// names is there: with To for From in every argument, after Ready. Whole
// reports whether a library made so is the one that the command itself makes.
type EarlyLink struct {
	From, To string
	Ready    func(context.Context) error
	Whole    func(library string) (bool, error)
}

// with returns the tool with more header folders.
func (t Tool) with(hs ...*Headers) Tool {
	out := Tool{append([]string(nil), t.Args...), maps.Clone(t.Env), maps.Clone(t.Fingerprints)}
	for _, h := range hs {
		if h == nil {
			continue
		}
		out.Args = append(out.Args, h.Flags...)
		for k, v := range h.Fingerprints {
			if out.Fingerprints == nil {
				out.Fingerprints = map[string]string{}
			}
			out.Fingerprints[k] = v
		}
	}
	return out
}

// summary names the tools for a variant's provenance, as in
// " (cxx 3aa62301, link 2c93e19a, torch 60fcdcb2)". Whoever rebuilds a variant
// and gets other bytes learns from it which tool is another one.
func (ts *Toolset) summary() string {
	if ts == nil {
		return ""
	}
	all := maps.Clone(ts.CXX.Fingerprints)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, ts.Link.Fingerprints)
	maps.Copy(all, ts.Torch.Fingerprints)
	if ts.Device != nil {
		maps.Copy(all, ts.Device.Fingerprints)
	}
	if ts.DeviceHost != nil {
		maps.Copy(all, ts.DeviceHost.Fingerprints)
	}
	if ts.Metal != nil {
		maps.Copy(all, ts.Metal.Fingerprints)
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, k+" "+all[k][:min(8, len(all[k]))])
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}
