package elffile

import (
	"debug/elf"
	"fmt"
	"io"
)

// Reloc is one relocation record.
type Reloc struct {
	// Offset is into the section in a relocatable file, an address elsewhere.
	Offset uint64
	// Type is the processor's own number (elf.R_X86_64, elf.R_AARCH64, ...).
	Type uint32
	// Symbol is the index into the linked symbol table, 0 for none.
	Symbol uint32
	// Addend is zero for SHT_REL, whose addend is in the place itself.
	Addend int64
}

// Relocs decodes a section of type SHT_RELA or SHT_REL.
func (f *File) Relocs(s *Section) ([]Reloc, error) {
	if s.Type != elf.SHT_RELA && s.Type != elf.SHT_REL {
		return nil, formatErr(int64(s.Offset), "section %s holds no relocations", s.Name)
	}
	b, err := f.Data(s)
	if err != nil {
		return nil, err
	}
	return f.decodeRelocs(b, s.Type == elf.SHT_RELA), nil
}

// perReloc is what a relocation may take of a check's memory, in bytes.
const perReloc = 200

// relocTable is a table of relocations that a loader applies.
type relocTable struct {
	r      *io.SectionReader
	addend bool
	n      uint64
}

// dynRelocs finds the tables of DT_RELA, DT_REL and DT_JMPREL.
func (f *File) dynRelocs() (tables []relocTable, err error) {
	d, err := f.Dynamic()
	if d == nil || err != nil {
		return nil, err
	}
	pltKind, _ := d.Value(elf.DT_PLTREL)
	left := f.Room(perReloc)
	for _, t := range []struct {
		at, size elf.DynTag
		addend   bool
	}{
		{elf.DT_RELA, elf.DT_RELASZ, true},
		{elf.DT_REL, elf.DT_RELSZ, false},
		{elf.DT_JMPREL, elf.DT_PLTRELSZ, elf.DynTag(pltKind) == elf.DT_RELA},
	} {
		r, err := f.dynReader(d, t.at, t.size)
		if err != nil {
			return nil, err
		}
		n := uint64(r.Size()) / uint64(f.relocSize(t.addend))
		if n > left {
			return nil, formatErr(0, "%v: %d relocations: a file of %d bytes is read with %d at most", t.at, n, f.src.Size, f.Room(perReloc))
		}
		left -= n
		tables = append(tables, relocTable{r, t.addend, n})
	}
	return tables, nil
}

// DynRelocCount is how many relocations DynRelocs shows.
func (f *File) DynRelocCount() (n int, err error) {
	tables, err := f.dynRelocs()
	for _, t := range tables {
		n += int(t.n)
	}
	return n, err
}

// DynRelocs calls do for each relocation of DT_RELA, DT_REL and DT_JMPREL:
// what a loader applies, but for the packed relative ones, which Relr gives.
// An error of the tables comes before the first call.
func (f *File) DynRelocs(do func(Reloc)) error {
	tables, err := f.dynRelocs()
	if err != nil {
		return err
	}
	for _, t := range tables {
		size := f.relocSize(t.addend)
		for b, n := make([]byte, min(t.r.Size(), int64(size)<<12)), t.n; n > 0; {
			b = b[:min(uint64(len(b)), n*uint64(size))]
			if _, err := io.ReadFull(t.r, b); err != nil {
				return err
			}
			for at := 0; at+size <= len(b); at += size {
				do(f.decodeReloc(b[at:], t.addend))
				n--
			}
		}
	}
	return nil
}

// Tags of packed relative relocations, which debug/elf does not name.
const (
	DTRelrSize elf.DynTag = 35
	DTRelr     elf.DynTag = 36
)

// Relr reads the addresses that packed relative relocations patch: one word
// may stand for 63 of them.
func (f *File) Relr() ([]uint64, error) {
	d, err := f.Dynamic()
	if d == nil || err != nil {
		return nil, err
	}
	b, err := f.dynTable(d, DTRelr, DTRelrSize)
	if err != nil {
		return nil, err
	}
	word := uint64(8)
	if !f.Is64() {
		word = 4
	}
	var out []uint64
	var next uint64
	limit := int(f.Room(perReloc))
	for c := f.cursor(b); len(c.b) >= int(word); {
		if len(out) > limit {
			return nil, formatErr(0, "packed relocations: a file of %d bytes is read with %d at most", f.src.Size, limit)
		}
		v := c.addr()
		if v&1 == 0 {
			out = append(out, v)
			next = v + word
			continue
		}
		for i := uint64(0); i < word*8-1; i++ {
			if v>>(i+1)&1 != 0 {
				out = append(out, next+i*word)
			}
		}
		next += word * (word*8 - 1)
	}
	return out, nil
}

// dynReader reads a table of the dynamic section, an empty one if there is none.
func (f *File) dynReader(d *Dynamic, at, size elf.DynTag) (*io.SectionReader, error) {
	addr, ok := d.Value(at)
	n, _ := d.Value(size)
	if !ok || n == 0 {
		return io.NewSectionReader(f.src.R, 0, 0), nil
	}
	r, err := f.ReaderAddr(addr, n)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", at, err)
	}
	return r, nil
}

func (f *File) dynTable(d *Dynamic, at, size elf.DynTag) ([]byte, error) {
	r, err := f.dynReader(d, at, size)
	if err != nil {
		return nil, err
	}
	b := make([]byte, r.Size())
	_, err = io.ReadFull(r, b)
	return b, err
}

func (f *File) relocSize(addend bool) int {
	size := 16
	if !f.Is64() {
		size = 8
	}
	if addend {
		size += size / 2
	}
	return size
}

func (f *File) decodeRelocs(b []byte, addend bool) []Reloc {
	size := f.relocSize(addend)
	rels := make([]Reloc, len(b)/size)
	for i := range rels {
		rels[i] = f.decodeReloc(b[i*size:], addend)
	}
	return rels
}

func (f *File) decodeReloc(b []byte, addend bool) (r Reloc) {
	c := f.cursor(b)
	r.Offset = c.addr()
	info := c.addr()
	if f.Is64() {
		r.Symbol, r.Type = uint32(info>>32), uint32(info)
	} else {
		r.Symbol, r.Type = uint32(info>>8), uint32(info)&0xff
	}
	if addend {
		if f.Is64() {
			r.Addend = int64(c.u64())
		} else {
			r.Addend = int64(int32(c.u32()))
		}
	}
	return r
}
