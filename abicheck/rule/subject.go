package rule

import (
	"io"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
	"github.com/thox-ai/thoxbuild/abicheck/machofile"
	"github.com/thox-ai/thoxbuild/abicheck/pefile"
	"github.com/thox-ai/thoxbuild/manifests"
)

// Role is what a subject is to the library that it ends in.
type Role int

// The roles. Where thoxbuild built the file they are declared; for anything
// else all objects and libraries are Foreign and rules must infer.
const (
	// Foreign is a file that nobody declared.
	Foreign Role = iota
	// BaselineObject is an object that any supported CPU may run.
	BaselineObject
	// ISAObject is an object of a declared ISA unit; Subject.Unit holds it.
	ISAObject
	// Linked is a library that was linked from known objects; Subject.Link
	// holds them.
	Linked
)

// String names the role.
func (r Role) String() string {
	switch r {
	case Foreign:
		return "foreign"
	case BaselineObject:
		return "baseline object"
	case ISAObject:
		return "ISA unit"
	case Linked:
		return "linked library"
	}
	return "unknown role"
}

// Subject is one binary: a file, a member of an archive or wheel, or one
// architecture of a fat Mach-O file. Exactly one of ELF, MachO and PE is set,
// or none for a variant folder as a whole (Dir is set then).
type Subject struct {
	// File and Member name it in findings; see Finding.
	File   string
	Member string
	// Name is the base name that the loader sees, such as "_ops.abi3.so".
	Name string
	// Data holds the bytes of this binary alone, from 0 to Size. It may be
	// read at the same time by several passes.
	Data io.ReaderAt
	Size int64

	ELF   *elffile.File
	MachO *machofile.File
	PE    *pefile.File
	// Dir is the path of a variant folder.
	Dir string

	Role Role
	// Unit is the ISA unit of an ISAObject.
	Unit *Unit
	// Link is what the object is linked with, or the library linked from.
	Link *Link
	// Package is the wheel or variant around the file; nil for a lone file.
	Package *Package

	Want Want
}

// Link is one link step: its objects in command-line order and its output.
type Link struct {
	Objects []*Subject
	// Output is nil before the link.
	Output *Subject
}

// Package is what is shipped together.
type Package struct {
	// Libraries are the base names of every library inside, links included.
	Libraries map[string]bool
	// Metadata is set for a variant folder whose metadata.json can be read.
	Metadata *manifests.Metadata
}

// Finding returns a finding about this subject with its place filled in.
func (s *Subject) Finding(id string, sev Severity, message string) Finding {
	return Finding{ID: id, Severity: sev, File: s.File, Member: s.Member, Message: message, Confidence: Certain}
}
