// Package fatbin reads the headers of CUDA fat binaries: which processors a
// library carries machine code for, and which PTX it carries for newer ones.
//
// The layout is not published; it was read off files that nvcc 12 and 13
// wrote. A section holds containers one after another, each a 16-byte header
// and entries; an entry has a header with its own length, the kind, the
// architecture and flags, then the payload, compressed or not. Headers are
// never compressed, so payloads are skipped, not read.
package fatbin

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/thox-ai/thoxbuild/manifests"
)

// Entry is one kind of content: machine code or PTX for one architecture.
type Entry struct {
	PTX bool
	// Arch is the compute capability in tens, such as 90 or 120.
	Arch int
	// Suffix is "a" (that architecture only), "f" (its family) or empty.
	Suffix string
	// ISA is the PTX language version of a PTX entry, zero for machine code.
	// It decides which driver can compile the entry.
	ISA manifests.Version
}

// Capability prints the architecture as build.toml and metadata.json spell
// it: "9.0a", or "9.0+PTX" for PTX.
func (e Entry) Capability() string {
	s := fmt.Sprintf("%d.%d%s", e.Arch/10, e.Arch%10, e.Suffix)
	if e.PTX {
		s += "+PTX"
	}
	return s
}

// Compare orders by architecture, machine code before PTX.
func (e Entry) Compare(o Entry) int {
	p, q := 0, 0
	if e.PTX {
		p = 1
	}
	if o.PTX {
		q = 1
	}
	return cmp.Or(cmp.Compare(e.Arch, o.Arch), cmp.Compare(e.Suffix, o.Suffix), cmp.Compare(p, q), e.ISA.Compare(o.ISA))
}

const (
	magic       = 0xba55ed50
	kindPTX     = 1
	kindELF     = 2
	flagArch    = 0x100000
	flagFamily  = 0x200000
	entryHeader = 64
	maxEntries  = 1 << 22
)

// Read lists what a fat binary section (.nv_fatbin or __nv_relfatbin, or a
// .fatbin file) of the given size holds, each kind of entry once, sorted. Its
// cost is one small read for an entry.
func Read(r io.ReaderAt, size int64) ([]Entry, error) {
	seen := map[Entry]bool{}
	var head [entryHeader]byte
	le := binary.LittleEndian
	entries := 0
	for off := int64(0); off+16 <= size; {
		if _, err := r.ReadAt(head[:16], off); err != nil {
			return nil, fmt.Errorf("fat binary at 0x%x: %w", off, err)
		}
		if le.Uint64(head[:]) == 0 {
			off += 8 // padding between containers
			continue
		}
		if le.Uint32(head[:]) != magic {
			return nil, fmt.Errorf("fat binary at 0x%x: magic 0x%x, expected 0x%x", off, le.Uint32(head[:]), uint32(magic))
		}
		headLen, bodyLen := int64(le.Uint16(head[6:])), le.Uint64(head[8:])
		if headLen < 16 || off+headLen > size || bodyLen > uint64(size-off-headLen) {
			return nil, fmt.Errorf("fat binary at 0x%x: %d bytes reach past the section (%d bytes)", off, bodyLen, size)
		}
		at, end := off+headLen, off+headLen+int64(bodyLen)
		for at < end {
			if end-at < entryHeader {
				break // padding
			}
			if _, err := r.ReadAt(head[:], at); err != nil {
				return nil, fmt.Errorf("fat binary entry at 0x%x: %w", at, err)
			}
			entryLen, payload := int64(le.Uint32(head[4:])), le.Uint64(head[8:])
			if entryLen < entryHeader || entryLen > end-at || payload > uint64(end-at-entryLen) {
				return nil, fmt.Errorf("fat binary entry at 0x%x: %d bytes reach past its container", at, payload)
			}
			if entries++; entries > maxEntries {
				return nil, fmt.Errorf("fat binary: more than %d entries", maxEntries)
			}
			if e, ok := decode(head[:]); ok {
				seen[e] = true
			}
			at += entryLen + int64(payload)
		}
		off = end
	}
	out := make([]Entry, 0, len(seen))
	for e := range seen {
		out = append(out, e)
	}
	slices.SortFunc(out, Entry.Compare)
	return out, nil
}

// decode reads an entry's header; ok is false for kinds that are neither
// machine code nor PTX (options, link-time IR).
func decode(b []byte) (e Entry, ok bool) {
	le := binary.LittleEndian
	kind := le.Uint16(b)
	e.Arch = int(le.Uint32(b[28:]))
	if e.Arch < 10 || e.Arch > 9999 {
		return e, false
	}
	switch flags := le.Uint64(b[40:]); {
	case flags&flagArch != 0:
		e.Suffix = "a"
	case flags&flagFamily != 0:
		e.Suffix = "f"
	}
	switch kind {
	case kindPTX:
		e.PTX = true
		e.ISA = manifests.Version{Major: int(le.Uint16(b[26:])), Minor: int(le.Uint16(b[24:]))}
		return e, true
	case kindELF:
		return e, true
	}
	return e, false
}

// MaxISA is the newest PTX language version that the driver of a CUDA release
// compiles; ok is false for a release that the table does not have.
func MaxISA(cuda manifests.Version) (v manifests.Version, ok bool) {
	v, ok = ptxISA[cuda]
	return v, ok
}

var ptxISA = map[manifests.Version]manifests.Version{
	{Major: 11, Minor: 8}: {Major: 7, Minor: 8},
	{Major: 12, Minor: 0}: {Major: 8, Minor: 0},
	{Major: 12, Minor: 1}: {Major: 8, Minor: 1},
	{Major: 12, Minor: 2}: {Major: 8, Minor: 2},
	{Major: 12, Minor: 3}: {Major: 8, Minor: 3},
	{Major: 12, Minor: 4}: {Major: 8, Minor: 4},
	{Major: 12, Minor: 5}: {Major: 8, Minor: 5},
	{Major: 12, Minor: 6}: {Major: 8, Minor: 5},
	{Major: 12, Minor: 8}: {Major: 8, Minor: 7},
	{Major: 12, Minor: 9}: {Major: 8, Minor: 8},
	{Major: 13, Minor: 0}: {Major: 9, Minor: 0},
	{Major: 13, Minor: 1}: {Major: 9, Minor: 1},
	{Major: 13, Minor: 2}: {Major: 9, Minor: 2},
}
