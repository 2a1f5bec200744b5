package manifests

import "fmt"

// Backend is a compute family as build.toml and metadata.json spell it.
type Backend string

// The backends that build.toml accepts.
const (
	CANN   Backend = "cann"
	CPU    Backend = "cpu"
	CUDA   Backend = "cuda"
	Metal  Backend = "metal"
	Neuron Backend = "neuron"
	ROCm   Backend = "rocm"
	TPU    Backend = "tpu"
	XPU    Backend = "xpu"
)

// Backends lists every accepted backend in the order upstream prints them.
var Backends = []Backend{CANN, CPU, CUDA, Metal, Neuron, ROCm, TPU, XPU}

// Arch is a processor architecture as variant names spell it.
type Arch string

// OS is an operating system as variant names spell it.
type OS string

// Architectures and systems that variant names know.
const (
	X86_64  Arch = "x86_64"
	AArch64 Arch = "aarch64"

	Linux   OS = "linux"
	Darwin  OS = "darwin"
	Windows OS = "windows"
)

// Platform is the processor and system that a variant runs on.
type Platform struct {
	Arch Arch
	OS   OS
}

// String prints "x86_64-linux".
func (p Platform) String() string { return fmt.Sprintf("%s-%s", p.Arch, p.OS) }

// Compute is a backend with the toolkit version that variant names carry.
// Version is zero for backends without one (cpu, metal, neuron, tpu).
type Compute struct {
	Backend Backend
	Version Version
}

// MacOS is the oldest macOS that darwin variants of this compute promise, as
// kernel-builder sets it: the loader takes Metal builds from 26.0 on.
func (c Compute) MacOS() Version {
	if c.Backend == Metal {
		return Version{Major: 26}
	}
	return Version{Major: 15}
}
