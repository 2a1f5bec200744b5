// Package relink makes the symbols of a relocatable object local.
//
// A translation unit for one instruction set carries copies of inline
// functions compiled with that set's instructions. The linker keeps one copy
// of each name for the whole library, and when it keeps this one, code for any
// processor runs it. Isolate leaves such a unit with its entries as the only
// names, so that no copy can leave it.
package relink

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// Sizes and offsets of ELF64 structures, from the System V ABI.
const (
	ehdrSize, shdrSize, symSize, relaSize, relSize = 64, 64, 24, 24, 16
)

// Section types and flags that debug/elf does not name.
const (
	shtAddrsig = 0x6fff4c03 // SHT_LLVM_ADDRSIG: symbol numbers as LEB128
	shfExclude = 0x80000000
	grpComdat  = 1
)

// section is one section header; at is where it stands in the file.
type section struct {
	at                     int
	name, kind, link, info uint32
	flags, off, size       uint64
}

// object is a relocatable file that is changed in place.
type object struct {
	b        []byte
	sections []section
	symtab   int // index of the symbol table
}

var le = binary.LittleEndian

// Isolate returns a copy of an ELF64 little-endian relocatable object in which
// every defined symbol but the entries is local, and COMDAT groups are
// ordinary groups, so the linker never replaces one by a namesake. Symbols
// that the object needs from elsewhere stay.
//
// It fails when an entry is not defined, so a misspelt name can't leave the
// library without the unit's code in silence.
func Isolate(obj []byte, entries []string) ([]byte, error) {
	o, err := parse(slices.Clone(obj))
	if err != nil {
		return nil, fmt.Errorf("isolate: %w", err)
	}
	moved, err := o.localize(entries)
	if err != nil {
		return nil, fmt.Errorf("isolate: %w", err)
	}
	if err := o.renumber(moved); err != nil {
		return nil, fmt.Errorf("isolate: %w", err)
	}
	return o.b, nil
}

func parse(b []byte) (*object, error) {
	if len(b) < ehdrSize || !bytes.HasPrefix(b, []byte(elf.ELFMAG)) || b[elf.EI_CLASS] != byte(elf.ELFCLASS64) || b[elf.EI_DATA] != byte(elf.ELFDATA2LSB) || elf.Type(le.Uint16(b[16:])) != elf.ET_REL {
		return nil, fmt.Errorf("expected a 64-bit little-endian relocatable ELF object")
	}
	shoff, entsize, count := le.Uint64(b[40:]), le.Uint16(b[58:]), uint64(le.Uint16(b[60:]))
	if entsize != shdrSize || shoff > uint64(len(b)) || uint64(len(b))-shoff < shdrSize {
		return nil, fmt.Errorf("damaged section headers")
	}
	if count == 0 { // more than 65279 sections: the count is in the first header
		count = le.Uint64(b[shoff+32:])
	}
	if count > (uint64(len(b))-shoff)/shdrSize {
		return nil, fmt.Errorf("section headers end behind the file")
	}
	o := &object{b: b, symtab: -1}
	for i := range count {
		at := int(shoff + i*shdrSize)
		h := b[at:]
		s := section{at, le.Uint32(h), le.Uint32(h[4:]), le.Uint32(h[40:]), le.Uint32(h[44:]), le.Uint64(h[8:]), le.Uint64(h[24:]), le.Uint64(h[32:])}
		if !s.empty() && (s.off > uint64(len(b)) || s.size > uint64(len(b))-s.off) {
			return nil, fmt.Errorf("section %d ends behind the file", i)
		}
		if s.kind == uint32(elf.SHT_SYMTAB) {
			if o.symtab >= 0 {
				return nil, fmt.Errorf("more than one symbol table")
			}
			o.symtab = int(i)
		}
		o.sections = append(o.sections, s)
	}
	if o.symtab < 0 {
		return nil, fmt.Errorf("no symbol table")
	}
	return o, nil
}

// data is a section's bytes; one that takes no room in the file has none.
func (o *object) data(s section) []byte {
	if s.empty() {
		return nil
	}
	return o.b[s.off : s.off+s.size]
}

func (s section) empty() bool {
	return s.kind == uint32(elf.SHT_NOBITS) || s.kind == uint32(elf.SHT_NULL)
}

// localize rewrites the symbol table: locals first, as the format demands. It
// returns the new number of each symbol.
func (o *object) localize(entries []string) ([]uint32, error) {
	tab := o.sections[o.symtab]
	syms := o.data(tab)
	if len(syms)%symSize != 0 || int(tab.link) >= len(o.sections) {
		return nil, fmt.Errorf("damaged symbol table")
	}
	strs := o.data(o.sections[tab.link])
	n := len(syms) / symSize
	var local, global []int
	var defined []string
	found := map[string]bool{}
	for i := range n {
		s := syms[i*symSize : (i+1)*symSize]
		bind := elf.ST_BIND(s[4])
		shndx := elf.SectionIndex(le.Uint16(s[6:]))
		if i == 0 || bind == elf.STB_LOCAL {
			local = append(local, i)
			continue
		}
		name, err := cString(strs, le.Uint32(s))
		switch {
		case err != nil:
			return nil, err
		case shndx == elf.SHN_UNDEF:
			global = append(global, i)
		case slices.Contains(entries, name):
			found[name] = true
			global = append(global, i)
		case shndx == elf.SHN_COMMON:
			return nil, fmt.Errorf("symbol %q is a common one, which can't be made local; compile with -fno-common", name)
		default:
			s[4] = byte(elf.STB_LOCAL)<<4 | s[4]&0xf
			s[5] = 0 // visibility means nothing for a local
			local = append(local, i)
			if elf.ST_TYPE(s[4]) == elf.STT_FUNC {
				defined = append(defined, name)
			}
		}
	}
	for _, e := range entries {
		if !found[e] {
			slices.Sort(defined)
			return nil, fmt.Errorf("entry %q is not defined; the unit defines %s", e, summary(defined))
		}
	}
	moved := make([]uint32, n)
	old := slices.Clone(syms)
	for to, from := range append(local, global...) {
		copy(syms[to*symSize:], old[from*symSize:(from+1)*symSize])
		moved[from] = uint32(to)
	}
	le.PutUint32(o.b[tab.at+44:], uint32(len(local)))
	return moved, nil
}

// renumber follows the moved symbols wherever their numbers are used.
func (o *object) renumber(moved []uint32) error {
	renumbered := func(old uint32) (uint32, error) {
		if int(old) >= len(moved) {
			return 0, fmt.Errorf("symbol number %d is outside the table", old)
		}
		return moved[old], nil
	}
	for _, s := range o.sections {
		if int(s.link) != o.symtab {
			continue
		}
		data := o.data(s)
		switch s.kind {
		case uint32(elf.SHT_RELA), uint32(elf.SHT_REL):
			step := relaSize
			if s.kind == uint32(elf.SHT_REL) {
				step = relSize
			}
			for at := 0; at+step <= len(data); at += step {
				to, err := renumbered(le.Uint32(data[at+12:])) // the upper half of r_info
				if err != nil {
					return err
				}
				le.PutUint32(data[at+12:], to)
			}
		case uint32(elf.SHT_GROUP):
			to, err := renumbered(s.info)
			if err != nil || len(data) < 4 {
				return fmt.Errorf("damaged section group")
			}
			le.PutUint32(o.b[s.at+44:], to)
			le.PutUint32(data, le.Uint32(data)&^grpComdat)
		case uint32(elf.SHT_SYMTAB_SHNDX):
			if len(data) != 4*len(moved) {
				return fmt.Errorf("damaged table of section numbers")
			}
			old := slices.Clone(data)
			for from, to := range moved {
				copy(data[4*to:4*to+4], old[4*from:])
			}
		case shtAddrsig:
			// It names symbols by number in a coding of variable length and
			// only lets the linker fold functions: drop it.
			le.PutUint32(o.b[s.at+4:], uint32(elf.SHT_PROGBITS))
			le.PutUint64(o.b[s.at+8:], s.flags|shfExclude)
			le.PutUint32(o.b[s.at+40:], 0)
		}
	}
	return nil
}

func cString(table []byte, at uint32) (string, error) {
	if int64(at) >= int64(len(table)) {
		return "", fmt.Errorf("symbol name outside the string table")
	}
	end := bytes.IndexByte(table[at:], 0)
	if end < 0 {
		return "", fmt.Errorf("symbol name without an end")
	}
	return string(table[at : int(at)+end]), nil
}

func summary(names []string) string {
	const most = 5
	switch {
	case len(names) == 0:
		return "no function"
	case len(names) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
