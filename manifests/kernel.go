package manifests

// Kernel is a kernel's build.toml in the shape of edition 5. Older editions
// are converted to it. A nil slice means that the key is absent; an empty one
// that it is there and empty, which for pyext and cuda-capabilities is not the
// same thing.
type Kernel struct {
	// Dir is the absolute directory that holds the file. Every path below is
	// relative to it, uses forward slashes and stays inside.
	Dir string
	// File is the path as the caller gave it, for messages.
	File string
	// Edition is what the file was written in: 5, or 4 for a file without the
	// key.
	Edition int

	General General
	// Exactly one of the three frameworks is set.
	Torch       *TorchTable
	TorchNoarch *TorchNoarchTable
	TVMFFI      *TVMFFITable
	// Sections are the [kernel.<name>] tables, sorted by name.
	Sections []Section

	positions map[string]Pos
}

// General is the [general] table.
type General struct {
	Name          string
	Version       int
	License       string
	Backends      []Backend
	Upstream      string
	Source        string
	PythonDepends []string
	KernelDepends []KernelDependency
	Hub           Hub
	CUDA          CUDAGeneral
	Neuron        BackendGeneral
	TPU           BackendGeneral
	XPU           BackendGeneral
}

// Hub is the [general.hub] table. An empty Branch means v<version>.
type Hub struct {
	RepoID string
	Branch string
}

// BackendGeneral is what [general.<backend>] says for every backend that has
// such a table.
type BackendGeneral struct {
	PythonDepends []string
	KernelDepends []KernelDependency
}

// CUDAGeneral is the [general.cuda] table. Both bounds are inclusive and zero
// when not set.
type CUDAGeneral struct {
	MinVer, MaxVer Version
	BackendGeneral
}

// KernelDependency is another kernel that this one loads. Exactly one of
// Version and Revision is set.
type KernelDependency struct {
	RepoID   string
	Version  *int
	Revision string
}

// TorchTable is the [torch] table: an ahead-of-time torch extension.
type TorchTable struct {
	Src            []string
	Include        []string
	PyExt          []string
	MinVer, MaxVer Version
	CxxFlags       []string
	StableABI      StableABI
}

// StableABI says which backends build against torch's stable ABI and from
// which torch on: one floor for All backends, or one for each in ByBackend.
type StableABI struct {
	All       Version
	ByBackend map[Backend]Version
}

// For returns the floor for a backend; ok is false when that backend builds
// against one torch version instead.
func (s StableABI) For(b Backend) (floor Version, ok bool) {
	if !s.All.IsZero() {
		return s.All, true
	}
	floor, ok = s.ByBackend[b]
	return floor, ok
}

// IsZero reports whether no backend uses the stable ABI.
func (s StableABI) IsZero() bool { return s.All.IsZero() && len(s.ByBackend) == 0 }

// TorchNoarchTable is the [torch-noarch] table: Python only, nothing to compile.
type TorchNoarchTable struct {
	PyExt            []string
	CUDACapabilities []string
	ROCmArchs        []string
}

// TVMFFITable is the [tvm-ffi] table.
type TVMFFITable struct {
	Src      []string
	Include  []string
	PyExt    []string
	CxxFlags []string
}

// Section is one [kernel.<name>] table: a component for one backend.
type Section struct {
	Name             string
	Backend          Backend
	Depends          []string
	Src              []string
	Include          []string
	CxxFlags         []string
	CUDACapabilities []string
	CUDAFlags        []string
	CUDAMinVer       Version
	ROCmArchs        []string
	HIPFlags         []string
	SYCLFlags        []string
}

// PythonName is the name of the Python package: dashes become underscores.
func (k *Kernel) PythonName() string { return pythonName(k.General.Name) }

// Branch is the Hub branch that this version is published on.
func (k *Kernel) Branch() string {
	if k.General.Hub.Branch != "" {
		return k.General.Hub.Branch
	}
	return versionBranch(k.General.Version)
}

// SectionsFor returns the sections of one backend, in order of their names.
func (k *Kernel) SectionsFor(b Backend) []Section {
	var out []Section
	for _, s := range k.Sections {
		if s.Backend == b {
			out = append(out, s)
		}
	}
	return out
}

// Section returns the section of that name.
func (k *Kernel) Section(name string) (Section, bool) {
	for _, s := range k.Sections {
		if s.Name == name {
			return s, true
		}
	}
	return Section{}, false
}

// Pos returns where the value of a dotted key stands in the file, such as
// kernel.rms.cuda-capabilities or torch.src[0]. For a key that the file does
// not hold it returns the file alone.
func (k *Kernel) Pos(key string) Pos {
	if p, ok := k.positions[key]; ok {
		return p
	}
	return Pos{File: k.File}
}
