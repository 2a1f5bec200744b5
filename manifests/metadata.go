package manifests

// Metadata is a variant's metadata.json. Keys that this type does not know
// are kept and printed again.
type Metadata struct {
	Name string
	// ID is the name of the extension module and of the ops namespace:
	// _<python name>_<backend>_<unique id>.
	ID      string
	Version int
	// KernelsMinVer is the oldest loader release, "X.Y.Z", or empty.
	KernelsMinVer string
	License       string
	Upstream      string
	Source        string
	PythonDepends []string
	// KernelDepends is nil when the key is absent.
	KernelDepends []KernelDependency
	Backend       MetadataBackend
	Digest        *Digest
	Provenance    *Provenance

	unknown []jsonMember
}

// MetadataBackend is the backend of a variant and, for CUDA and ROCm, the
// architectures that its binary holds. The loader refuses a device that none
// of them serves.
type MetadataBackend struct {
	Type  Backend
	Archs []string

	unknown []jsonMember
}

// Provenance says what built a variant and from which commit.
type Provenance struct {
	KernelBuilder Builder
	// Kernel is the commit of the kernel's sources, or nil.
	Kernel *Commit

	unknown []jsonMember
}

// Builder is the program that built a variant. Version is free text, such as
// "thoxbuild 0.1"; Commit is optional.
type Builder struct {
	Version string
	Commit  *Commit

	unknown []jsonMember
}

// Commit is a source revision. SHA is 40 or 64 lower-case hex digits; Dirty
// says that the tree held changes which the commit does not.
type Commit struct {
	SHA   string
	Dirty bool

	unknown []jsonMember
}

// Algorithm is a digest algorithm of metadata.json.
type Algorithm string

// The digest algorithms. Producers write SHA256; both are read.
const (
	SHA256 Algorithm = "sha256"
	SHA512 Algorithm = "sha512"
)

// Digest holds a hash for every file of a variant but its metadata: padded
// base64 by slash-separated relative path.
type Digest struct {
	Algorithm Algorithm
	Files     map[string]string
}
