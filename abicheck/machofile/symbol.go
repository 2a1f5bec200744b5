package machofile

import (
	"debug/macho"
	"strings"
)

// Symbol is one entry of the symbol table, debugging entries left out.
type Symbol struct {
	// Name is as the file has it, with the leading underscore of C names.
	Name  string
	Type  uint8
	Sect  uint8 // 1-based section ordinal, 0 for none
	Desc  uint16
	Value uint64
}

// Bits of Type and Desc.
const (
	nStab, nPext, nType, nExt = 0xe0, 0x10, 0x0e, 0x01
	nUndef                    = 0x0
	nSect                     = 0xe
	nWeakRef, nWeakDef        = 0x40, 0x80
)

// Undefined reports whether another library has to define the symbol.
func (s *Symbol) Undefined() bool { return s.Type&nType == nUndef && s.Value == 0 && s.Type&nExt != 0 }

// Defined reports whether the symbol is a place in a section.
func (s *Symbol) Defined() bool { return s.Type&nType == nSect }

// External reports whether the symbol takes part in linking across files;
// a private external one does so only until the link.
func (s *Symbol) External() bool { return s.Type&nExt != 0 }

// PrivateExternal reports N_PEXT, the equal of hidden visibility.
func (s *Symbol) PrivateExternal() bool { return s.Type&nPext != 0 }

// WeakDef reports a definition that a linker or loader may replace by an
// equal one (COMDAT).
func (s *Symbol) WeakDef() bool { return s.Desc&nWeakDef != 0 && s.Type&nType != nUndef }

// WeakRef reports a reference that may stay unresolved.
func (s *Symbol) WeakRef() bool { return s.Desc&nWeakRef != 0 && s.Type&nType == nUndef }

// Library returns the 1-based ordinal of the library that an undefined symbol
// of a two-level namespace is bound to; 0xfe is dynamic lookup.
func (s *Symbol) Library() uint8 { return uint8(s.Desc >> 8) }

// Symbols reads the symbol table.
func (f *File) Symbols() ([]Symbol, error) {
	s, err := f.symsFn()
	return s.list, err
}

// symbols is a symbol table, and where each of its entries is in the list, -1
// for one that was left out.
type symbols struct {
	list  []Symbol
	place []int32
}

// A check may take the file's size and 64 MB of memory; a symbol needs
// perSymbol bytes of that, with what the rules make of it.
const perSymbol = 640

func (f *File) readSymbols() (symbols, error) {
	if f.symtab.Size == 0 {
		return symbols{}, nil
	}
	entry := 12
	if f.wide {
		entry = 16
	}
	if n := f.symtab.Size / uint64(entry); n > f.src.Room(perSymbol) {
		return symbols{}, formatErr(int64(f.symtab.Off), "%d symbols: a file of %d bytes is read with %d at most", n, f.src.Size, f.src.Room(perSymbol))
	}
	data, err := f.span(f.symtab, "symbol table")
	if err != nil {
		return symbols{}, err
	}
	sb, err := f.span(f.strtab, "string table")
	if err != nil {
		return symbols{}, err
	}
	strs := string(sb)
	syms := make([]Symbol, 0, len(data)/entry)
	var place []int32
	for i := 0; i+entry <= len(data); i += entry {
		b := data[i:]
		s := Symbol{Type: b[4], Sect: b[5], Desc: f.Order.Uint16(b[6:])}
		if s.Type&nStab != 0 {
			place = append(place, -1)
			continue
		}
		if f.wide {
			s.Value = f.Order.Uint64(b[8:])
		} else {
			s.Value = uint64(f.Order.Uint32(b[8:]))
		}
		if at := f.Order.Uint32(b); at != 0 {
			if uint64(at) >= uint64(len(strs)) {
				return symbols{}, formatErr(int64(f.symtab.Off)+int64(i), "symbol has its name outside the string table")
			}
			s.Name, _, _ = strings.Cut(strs[at:], "\x00")
		}
		place = append(place, int32(len(syms)))
		syms = append(syms, s)
	}
	return symbols{syms, place}, nil
}

// Arch names the architecture as lipo does.
func (f *File) Arch() string { return archName(f.CPU, f.SubCPU) }

func archName(cpu macho.Cpu, sub uint32) string {
	switch cpu {
	case macho.CpuAmd64:
		if sub&0xff == 8 {
			return "x86_64h"
		}
		return "x86_64"
	case macho.CpuArm64:
		if sub&0xff == 2 {
			return "arm64e"
		}
		return "arm64"
	case macho.Cpu386:
		return "i386"
	case macho.CpuArm:
		return "arm"
	}
	return cpu.String()
}
