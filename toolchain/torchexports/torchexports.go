// Package torchexports tells which symbols a torch release exports on the CPU,
// so that a kernel's undefined symbols can be checked without that torch.
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

// Libraries are the parts of a torch wheel whose exports a CPU table holds.
var Libraries = []string{"libc10.so", "libtorch_cpu.so", "libtorch.so", "libtorch_python.so"}

// Exports are the names that one torch release exports.
type Exports struct {
	hashes []byte // sorted, hashSize bytes each
}

// Find returns the table of a release, or nil where none is shipped. Tables
// cover torch's CPU libraries only: a CUDA build has further ones, so for any
// other backend than cpu there is none.
func Find(torch manifests.Version, compute manifests.Compute, platform manifests.Platform) (*Exports, error) {
	if compute.Backend != manifests.CPU {
		return nil, nil
	}
	b, err := tables.ReadFile("tables/" + FileName(torch, platform))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return Parse(b)
}

// FileName is the name of a release's table.
func FileName(torch manifests.Version, platform manifests.Platform) string {
	return fmt.Sprintf("torch-%s-cpu-%s.bin", torch, platform)
}

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

// Bytes is the form that Parse reads.
func (e *Exports) Bytes() []byte { return append([]byte(magic), e.hashes...) }

// Len is the number of names.
func (e *Exports) Len() int { return len(e.hashes) / hashSize }

// Has reports whether the release exports a name, as it is mangled.
func (e *Exports) Has(name string) bool {
	h := hash(name)
	i := sort.Search(e.Len(), func(i int) bool { return bytes.Compare(e.hashes[i*hashSize:][:hashSize], h[:]) >= 0 })
	return i < e.Len() && bytes.Equal(e.hashes[i*hashSize:][:hashSize], h[:])
}

func hash(name string) (h [hashSize]byte) {
	sum := sha256.Sum256([]byte(name))
	copy(h[:], sum[:])
	return h
}
