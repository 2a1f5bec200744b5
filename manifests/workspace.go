package manifests

// Workspace is the other form of build.toml: it names the kernels of a tree
// and holds what their own strict files have no place for.
type Workspace struct {
	// Dir is the absolute directory that holds the file.
	Dir string
	// File is the path as the caller gave it, for messages. It is empty when
	// a lone kernel is used without a workspace.
	File string

	// Kernels are the kernel directories relative to Dir, as written.
	Kernels   []string
	Toolchain ToolchainPins
	Matrix    MatrixOverrides
	Publish   Publish
	// ISA maps a kernel's name and a section's name to the declaration of an
	// ISA unit.
	ISA map[string]map[string]ISAUnit
	// Dispatch maps a kernel's name to what its code tests the CPU with.
	Dispatch map[string]Dispatch
	// StableABI maps a kernel's name to the backends whose stable-ABI form is
	// built beside the one that the kernel's own file asks for.
	StableABI map[string]StableABI

	positions map[string]Pos
}

// CUDASource says where the CUDA compiler comes from.
type CUDASource string

// Where the CUDA compiler comes from: its wheels, or an installed toolkit.
const (
	CUDAWheels    CUDASource = "wheels"
	CUDAInstalled CUDASource = "installed"
)

// ToolchainPins is the [toolchain] table. Empty fields leave the choice to
// the toolchain.
type ToolchainPins struct {
	// Zig is the full version of the compiler's wheel, such as "0.17.1".
	Zig string
	// Glibc is the newest glibc that a built library may need.
	Glibc Version
	CUDA  CUDASource
}

// MatrixOverrides is the [matrix] table.
type MatrixOverrides struct {
	// Torch lists the torch releases to build; nil means the catalogue's.
	Torch []Version
	// Include and Exclude are globs over variant names. Exclude wins.
	Include, Exclude []string
}

// Publish is the [publish] table: what to use when the command line names
// none.
type Publish struct {
	Repo string
	To   string
	// Variants are globs over variant names; nil means all that are built.
	Variants []string
}

// ISAUnit declares a cpu section as code that runs only on processors with
// more than the baseline's instructions.
type ISAUnit struct {
	// Entries are the only symbols that may leave the unit.
	Entries []string
	// Isolate makes every other symbol of the unit local to it.
	Isolate bool
}

// Dispatch names the symbols of a kernel that choose between ISA units, where
// the check cannot tell by itself.
type Dispatch struct {
	// Guards are functions whose result, and data whose value, says what the
	// CPU can do.
	Guards []string
	// Dispatchers are functions that are trusted to test the CPU before they
	// call a unit.
	Dispatchers []string
}

// Pos returns where the value of a dotted key stands in the file.
func (w *Workspace) Pos(key string) Pos {
	if p, ok := w.positions[key]; ok {
		return p
	}
	return Pos{File: w.File}
}

// ISAUnit returns the declaration for a kernel's section.
func (w *Workspace) ISAUnit(kernel, section string) (ISAUnit, bool) {
	u, ok := w.ISA[kernel][section]
	return u, ok
}
