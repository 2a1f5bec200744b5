package rule

import (
	"time"

	"github.com/thox-ai/thoxbuild/manifests"
)

// SymbolSet answers whether a name is exported. The tables of torch releases
// may hold hashes only, so it cannot list its names.
type SymbolSet interface {
	Has(name string) bool
}

// StandIn is a SymbolSet of another build of the same release.
type StandIn interface {
	SymbolSet
	// Of names that build, such as "cu130"; it is empty for the build that was
	// asked for.
	Of() string
}

// Options are what the caller wants checked. Zero values mean "as the file
// claims": by the variant folder's name and metadata, by the wheel's tags, by
// the file's own name; Want documents the defaults after that.
type Options struct {
	// Manylinux is a policy such as "manylinux_2_28", or "none".
	Manylinux string
	// PythonABI is the abi3 floor.
	PythonABI manifests.Version
	// Torch is the release whose exports the file must live with, and Compute
	// the build of it for a file that no variant's name says it of.
	Torch   *manifests.Version
	Compute manifests.Compute
	// StableABI is the torch stable-ABI floor.
	StableABI *manifests.Version
	// MacOS is the newest deployment target that is allowed.
	MacOS manifests.Version
	// TorchExports finds the exports of a torch release. A nil set leaves
	// TORCH-UNDEF and the export half of TORCH-STABLE out; package abicheck
	// puts the tables that thoxbuild carries in place of a nil func.
	TorchExports func(torch manifests.Version, compute manifests.Compute, platform manifests.Platform) (SymbolSet, error)

	// Baseline is the oldest processor: x86-64, x86-64-v2, x86-64-v3,
	// armv8-a or apple-m1. Empty takes the platform's default.
	Baseline string
	// Units are the ISA units that build.toml declares.
	Units []Unit
	// Guards are functions whose result, and data whose value, tells what the
	// CPU can do, besides those that are known; Dispatchers are functions that
	// test it before they call a unit.
	Guards, Dispatchers []string
	// Exports are symbols that the file is meant to export besides PyInit_*.
	Exports []string

	// FactsOnly leaves out passes that decode code.
	FactsOnly bool
	// Strict makes warnings fail.
	Strict bool
	// Only, when not empty, lists the ids of rules to keep. FORMAT stays
	// whatever it lists: about a file that was not read the others say nothing.
	Only []string
	// Suppressions are accepted findings.
	Suppressions *Suppressions
	// Now decides which suppressions have expired; zero is the present.
	Now time.Time
	// Jobs is how many files are read at once; 0 is one for each processor.
	Jobs int
}

// Unit is an ISA unit: object files compiled for more than the baseline.
type Unit struct {
	Name string
	// Features are what the flags of the unit enable above the baseline, as
	// compilers spell them without -m: "avx2", "fma", "f16c".
	Features []string
	// Entries are the only symbols that other objects may call, and only
	// after a CPU test.
	Entries []string
	// Isolate says that the builder dissolved the unit's groups and localised
	// all but its entries.
	Isolate bool
}

// Want is what one subject has to satisfy: Options where they say something,
// else what the subject claims, else the defaults of kernel-builder
// (manylinux_2_28, abi3 3.9, macOS 15.0).
type Want struct {
	// Manylinux is empty where no policy applies (not linux, or a wheel that
	// claims none).
	Manylinux string
	// PythonABI is zero where the file claims no limited API.
	PythonABI manifests.Version
	Torch     *manifests.Version
	StableABI *manifests.Version
	MacOS     manifests.Version
	Baseline  string
	// Compute and Platform come from the variant's name; zero when unknown.
	Compute  manifests.Compute
	Platform manifests.Platform
	// From says where the claims were read, for messages.
	From string
}
