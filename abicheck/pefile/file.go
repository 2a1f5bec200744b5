package pefile

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"io"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/bounded"
)

// File is an opened PE image.
type File struct {
	Machine uint16
	// MajorOS and MinorOS are the oldest Windows version (subsystem version).
	MajorOS, MinorOS uint16
	// Characteristics are the DLL characteristics: pe.IMAGE_DLLCHARACTERISTICS_*.
	Characteristics uint16
	// Imports are the DLLs in file order.
	Imports []Import
	// Exports are the exported names.
	Exports  []string
	Sections []Section

	src  bounded.File
	wide bool
	// left is how many bytes of names and table entries may still be read. In
	// an honest file no two share bytes; in another, n entries may all point
	// to the same n names.
	left int64
}

// Import is one imported DLL with the names taken from it; an import by
// number has the name "#N".
type Import struct {
	DLL   string
	Names []string
}

// Section is one section header.
type Section struct {
	Name                     string
	Addr, Memsz, Off, Filesz uint32
	Flags                    uint32
}

// maxName is far above the longest name of any real image.
const maxName = 4096

// New reads the headers, imports and exports of a PE image.
func New(r io.ReaderAt, size int64) (*File, error) {
	f := &File{src: bounded.File{Format: "pe", R: r, Size: size}, left: size}
	dos, err := f.bytes(0, 64)
	if err != nil {
		return nil, err
	}
	if string(dos[:2]) != "MZ" {
		return nil, formatErr(0, "not a PE file")
	}
	at := int64(binary.LittleEndian.Uint32(dos[0x3c:]))
	head, err := f.bytes(at, 24)
	if err != nil {
		return nil, err
	}
	if string(head[:4]) != "PE\x00\x00" {
		return nil, formatErr(at, "no PE signature")
	}
	le := binary.LittleEndian
	f.Machine = le.Uint16(head[4:])
	nsec, optSize := int(le.Uint16(head[6:])), int(le.Uint16(head[20:]))
	opt, err := f.bytes(at+24, optSize)
	if err != nil {
		return nil, err
	}
	dirs, err := f.optional(opt, at+24)
	if err != nil {
		return nil, err
	}
	sec, err := f.bytes(at+24+int64(optSize), nsec*40)
	if err != nil {
		return nil, err
	}
	for i := range nsec {
		b := sec[i*40:]
		name, _, _ := bytes.Cut(b[:8], []byte{0})
		f.Sections = append(f.Sections, Section{
			Name: strings.ToValidUTF8(string(name), "?"), Memsz: le.Uint32(b[8:]), Addr: le.Uint32(b[12:]),
			Filesz: le.Uint32(b[16:]), Off: le.Uint32(b[20:]), Flags: le.Uint32(b[36:]),
		})
	}
	if err := f.readExports(dirs[pe.IMAGE_DIRECTORY_ENTRY_EXPORT]); err != nil {
		return nil, err
	}
	return f, f.readImports(dirs[pe.IMAGE_DIRECTORY_ENTRY_IMPORT])
}

// optional reads the optional header and returns the data directories'
// relative addresses.
func (f *File) optional(b []byte, at int64) (dirs [16]uint32, err error) {
	le := binary.LittleEndian
	dirAt := 96
	if len(b) < 2 {
		return dirs, formatErr(at, "no optional header")
	}
	switch le.Uint16(b) {
	case 0x10b:
	case 0x20b:
		f.wide, dirAt = true, 112
	default:
		return dirs, formatErr(at, "optional header of unknown kind 0x%x", le.Uint16(b))
	}
	if len(b) < dirAt {
		return dirs, formatErr(at, "optional header of %d bytes", len(b))
	}
	f.MajorOS, f.MinorOS = le.Uint16(b[48:]), le.Uint16(b[50:])
	f.Characteristics = le.Uint16(b[70:])
	n := int(min(le.Uint32(b[dirAt-4:]), 16))
	for i := 0; i < n && dirAt+8*i+8 <= len(b); i++ {
		dirs[i] = le.Uint32(b[dirAt+8*i:])
	}
	return dirs, nil
}

func (f *File) readImports(rva uint32) error {
	if rva == 0 {
		return nil
	}
	for i := uint32(0); ; i++ {
		b, err := f.at(rva+20*i, 20)
		if err != nil {
			return err
		}
		le := binary.LittleEndian
		lookup, name, addrs := le.Uint32(b), le.Uint32(b[12:]), le.Uint32(b[16:])
		if name == 0 {
			return nil
		}
		dll, err := f.str(name)
		if err != nil {
			return err
		}
		if lookup == 0 {
			lookup = addrs
		}
		imp := Import{DLL: dll}
		if imp.Names, err = f.lookups(lookup); err != nil {
			return err
		}
		f.Imports = append(f.Imports, imp)
	}
}

func (f *File) lookups(rva uint32) (names []string, err error) {
	size := uint32(4)
	if f.wide {
		size = 8
	}
	for i := uint32(0); ; i++ {
		b, err := f.at(rva+size*i, int(size))
		if err != nil {
			return nil, err
		}
		v, high := uint64(binary.LittleEndian.Uint32(b)), uint64(1)<<31
		if f.wide {
			v, high = binary.LittleEndian.Uint64(b), 1<<63
		}
		switch {
		case v == 0:
			return names, nil
		case v&high != 0:
			names = append(names, "#"+itoa(uint16(v)))
		default:
			s, err := f.str(uint32(v) + 2) // after the hint
			if err != nil {
				return nil, err
			}
			names = append(names, s)
		}
	}
}

func (f *File) readExports(rva uint32) error {
	if rva == 0 {
		return nil
	}
	b, err := f.at(rva, 40)
	if err != nil {
		return err
	}
	n, table := binary.LittleEndian.Uint32(b[24:]), binary.LittleEndian.Uint32(b[32:])
	if int64(n)*4 > f.src.Size {
		return formatErr(0, "%d exported names", n)
	}
	ptrs, err := f.at(table, int(n)*4)
	if err != nil {
		return err
	}
	for i := range int(n) {
		s, err := f.str(binary.LittleEndian.Uint32(ptrs[4*i:]))
		if err != nil {
			return err
		}
		f.Exports = append(f.Exports, s)
	}
	return nil
}
