package matrix

import "github.com/thox-ai/thoxbuild/manifests"

// Status says who asks for a variant.
type Status string

// The three statuses of a catalogue row.
const (
	// Required variants are on the Hub's list of builds that a compliant
	// kernel has.
	Required Status = "required"
	// Official variants are in the upstream matrix, or its policy covers them
	// since the list was written.
	Official Status = "official"
	// Extra variants are neither, but can be built from the same headers.
	Extra Status = "extra"
)

// Variant is one build of one kernel.
type Variant struct {
	Kernel *manifests.Kernel
	Name   manifests.VariantName
	// Torch is the release whose headers are compiled against. For the stable
	// ABI it is the newest of the group, not the floor in the name; for noarch
	// variants it is zero.
	Torch    manifests.Version
	Compute  manifests.Compute
	Platform manifests.Platform
	Status   Status
	// Components are the kernel's sections that this variant compiles, by name.
	Components []Component
	// Notes are what the reader of a list should know: dropped capabilities,
	// sections that this toolkit is too old for.
	Notes []string
	// Note is the catalogue's own remark on the row.
	Note string
	// Buildable says whether this host can build it; Reason says why not.
	// Expand gives a Reason to what the kernel itself rules out; Decide sets
	// the rest.
	Buildable bool
	Reason    string
}

// Component is a section of the kernel as one variant compiles it.
type Component struct {
	Section manifests.Section
	// Archs are the capabilities ("9.0a", "12.0+PTX") or gfx names to compile
	// for, in natural order. It is empty for backends without such a list and
	// never empty for CUDA and ROCm.
	Archs []string
	// Dropped are the entries of the section's list that this toolkit has no
	// use for, as they were written.
	Dropped []string
}

// Need is a tool that a variant's build runs.
type Need struct {
	Tool Tool
	// Version is the toolkit's version; zero when any will do.
	Version manifests.Version
	// Target is the platform that the tool must produce code for.
	Target manifests.Platform
}

// Tool is the kind of compiler that a Need asks for.
type Tool string

// The tools that builds run.
const (
	// ZigCXX is the C++ compiler of every Linux variant.
	ZigCXX Tool = "zig c++"
	// NVCC compiles CUDA 13 and newer.
	NVCC Tool = "nvcc"
	// ClangCUDA compiles CUDA 12 against its wheels.
	ClangCUDA Tool = "clang cuda"
	// XCRun stands for Xcode's C++ compiler and linker.
	XCRun Tool = "xcrun"
	// XCMetal stands for them and the Metal tools, which are a download of
	// their own.
	XCMetal Tool = "xcrun metal"
	// HIPCC compiles ROCm.
	HIPCC Tool = "hipcc"
	// ICPX compiles SYCL.
	ICPX Tool = "icpx"
)

// Probe reports whether this host has a tool: nil, or an error that says what
// was looked for and how to get it.
type Probe func(Need) error
