// Package torchexports tells which symbols a torch release exports, so that a
// kernel's undefined symbols can be checked without that torch.
//
// A table holds the first 40 bits of the SHA-256 of each exported name, sorted:
// five bytes a name. A name that torch lacks passes by chance in one of about
// ten million cases; a name that it has never fails. The tables were made from
// the published wheels by the command in gen.
//
// The package imports no other part of thoxbuild but the version types.
package torchexports

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/thox-ai/thoxbuild/manifests"
)

//go:generate go run ./gen -out tables

//go:embed tables
var tables embed.FS

const (
	magic    = "txexport"
	hashSize = 5
)

// Libraries are the parts of a torch wheel whose exports a table holds. That of
// CUDA holds what its libraries add to those of the CPU.
// Those of macOS have no backend of their own: the CPU's hold Metal's.
func Libraries(b manifests.Backend, os manifests.OS) []string {
	if os == manifests.Darwin {
		return []string{"libc10.dylib", "libtorch_cpu.dylib", "libtorch.dylib", "libtorch_python.dylib"}
	}
	if b == manifests.CUDA {
		return []string{"libc10_cuda.so", "libtorch_cuda.so"}
	}
	return []string{"libc10.so", "libtorch_cpu.so", "libtorch.so", "libtorch_python.so"}
}

// Exports are the names that one torch release exports.
type Exports struct {
	hashes []byte // sorted, hashSize bytes each
	// more holds the names of the CUDA libraries, in a set for CUDA.
	more *Exports
	of   string
}

// Find returns the names that a build of a release exports, or nil where no
// table is shipped.
//
// The package index has one CUDA build of each release: 13.0 up to torch 2.14,
// and 13.2 from 2.15 on. The others are on an index of torch's own. For those
// the release's one table stands in, and Of names the build that it is from:
// torch's own functions come from the same sources, whatever the toolkit.
func Find(torch manifests.Version, compute manifests.Compute, platform manifests.Platform) (*Exports, error) {
	cpu := manifests.Compute{Backend: manifests.CPU}
	switch compute.Backend {
	case manifests.Metal:
		if platform.OS != manifests.Darwin {
			return nil, nil
		}
		fallthrough
	case manifests.CPU:
		return read(FileName(torch, cpu, platform))
	case manifests.CUDA:
	default:
		return nil, nil
	}
	e, err := read(FileName(torch, cpu, platform))
	if e == nil || err != nil {
		return nil, err
	}
	if e.more, err = read(FileName(torch, compute, platform)); e.more != nil || err != nil {
		return e, err
	}
	others, err := fs.Glob(tables, "tables/"+FileName(torch, manifests.Compute{Backend: "cu*"}, platform))
	if err != nil || len(others) == 0 {
		return nil, err
	}
	name := path.Base(slices.Max(others))
	if e.more, err = read(name); err != nil {
		return nil, err
	}
	e.of = strings.Split(name, "-")[2]
	return e, nil
}

// Releases are the torch releases of which some build has a table, the oldest
// first.
func Releases() []manifests.Version {
	files, _ := tables.ReadDir("tables") // of the program itself
	var out []manifests.Version
	for _, f := range files {
		_, rest, _ := strings.Cut(f.Name(), "-")
		release, _, _ := strings.Cut(rest, "-")
		if v, err := manifests.ParseVersion(release); err == nil && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, manifests.Version.Compare)
	return out
}

// read returns a shipped table, or nil where there is none.
func read(name string) (*Exports, error) {
	b, err := tables.ReadFile("tables/" + name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return Parse(b)
}

// FileName is the name of a table.
func FileName(torch manifests.Version, compute manifests.Compute, platform manifests.Platform) string {
	return fmt.Sprintf("torch-%s-%s-%s.bin", torch, compute, platform)
}

// Of is empty for a set of the build that was asked for, else the build that
// stands in for it, such as "cu130".
func (e *Exports) Of() string { return e.of }

// New makes a table from names, in any order.
func New(names []string) *Exports {
	var hs [][hashSize]byte
	for _, n := range names {
		hs = append(hs, hash(n))
	}
	slices.SortFunc(hs, func(a, b [hashSize]byte) int { return bytes.Compare(a[:], b[:]) })
	hs = slices.Compact(hs)
	e := &Exports{}
	for _, h := range hs {
		e.hashes = append(e.hashes, h[:]...)
	}
	return e
}

// Parse reads the bytes of a table and refuses one that is not sorted.
func Parse(b []byte) (*Exports, error) {
	rest, ok := strings.CutPrefix(string(b), magic)
	if !ok || len(rest)%hashSize != 0 {
		return nil, errors.New("torch export table: not in the expected format")
	}
	for i := hashSize; i < len(rest); i += hashSize {
		if rest[i-hashSize:i] >= rest[i:i+hashSize] {
			return nil, fmt.Errorf("torch export table: entry %d is out of order", i/hashSize)
		}
	}
	return &Exports{hashes: []byte(rest)}, nil
}

// Bytes is the form that Parse reads, of one table.
func (e *Exports) Bytes() []byte { return append([]byte(magic), e.hashes...) }

// Len is the number of names in the table.
func (e *Exports) Len() int { return len(e.hashes) / hashSize }

// Has reports whether the release exports a name, as it is mangled.
func (e *Exports) Has(name string) bool {
	h := hash(name)
	i := sort.Search(e.Len(), func(i int) bool { return bytes.Compare(e.hashes[i*hashSize:][:hashSize], h[:]) >= 0 })
	if i < e.Len() && bytes.Equal(e.hashes[i*hashSize:][:hashSize], h[:]) {
		return true
	}
	return e.more != nil && e.more.Has(name)
}

func hash(name string) (h [hashSize]byte) {
	sum := sha256.Sum256([]byte(name))
	copy(h[:], sum[:])
	return h
}
