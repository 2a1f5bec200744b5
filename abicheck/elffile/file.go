package elffile

import (
	"debug/elf"
	"encoding/binary"
	"io"
	"math"
	"sync"
	"unsafe"

	"github.com/thox-ai/thoxbuild/abicheck/bounded"
)

// File is an opened ELF file.
type File struct {
	Class   elf.Class
	Order   binary.ByteOrder
	OSABI   elf.OSABI
	Type    elf.Type
	Machine elf.Machine
	Flags   uint32
	Entry   uint64

	Progs []Prog
	// Sections is empty when the file has no section headers; index 0 is the
	// null section.
	Sections []Section

	src bounded.File

	dyn    func() (*Dynamic, error)
	dynsym func() ([]Symbol, error)
	symtab func() ([]Symbol, error)
}

// Prog is one program header.
type Prog struct {
	Type                                    elf.ProgType
	Flags                                   elf.ProgFlag
	Off, Vaddr, Paddr, Filesz, Memsz, Align uint64
}

// Section is one section header with its name.
type Section struct {
	Index      int
	Name       string
	Type       elf.SectionType
	Flags      elf.SectionFlag
	Addr       uint64
	Offset     uint64
	Size       uint64
	Link, Info uint32
	Align      uint64
	EntSize    uint64
}

// New reads the headers of an ELF file of the given size. Section headers
// that cannot be read are an error only in a relocatable file: nothing that
// runs a library looks at them.
func New(r io.ReaderAt, size int64) (*File, error) {
	f := &File{src: bounded.File{Format: "elf", R: r, Size: size}}
	var ident [elf.EI_NIDENT]byte
	if err := f.src.Fill(ident[:], 0); err != nil {
		return nil, err
	}
	if string(ident[:4]) != elf.ELFMAG {
		return nil, formatErr(0, "not an ELF file")
	}
	f.Class, f.OSABI = elf.Class(ident[elf.EI_CLASS]), elf.OSABI(ident[elf.EI_OSABI])
	switch elf.Data(ident[elf.EI_DATA]) {
	case elf.ELFDATA2LSB:
		f.Order = binary.LittleEndian
	case elf.ELFDATA2MSB:
		f.Order = binary.BigEndian
	default:
		return nil, formatErr(elf.EI_DATA, "unknown byte order %d", ident[elf.EI_DATA])
	}
	if f.Class != elf.ELFCLASS32 && f.Class != elf.ELFCLASS64 {
		return nil, formatErr(elf.EI_CLASS, "unknown class %d", ident[elf.EI_CLASS])
	}
	h, err := f.header()
	if err != nil {
		return nil, err
	}
	if err := f.readProgs(h); err != nil {
		return nil, err
	}
	if err := f.readSections(h); err != nil {
		if f.Type == elf.ET_REL {
			return nil, err
		}
		f.Sections = nil
	}
	f.dyn = sync.OnceValues(f.readDynamic)
	f.dynsym = sync.OnceValues(f.readDynSymbols)
	f.symtab = sync.OnceValues(f.readSymtab)
	return f, nil
}

// Size is the number of bytes of the file.
func (f *File) Size() int64 { return f.src.Size }

// Is64 reports whether addresses have 8 bytes.
func (f *File) Is64() bool { return f.Class == elf.ELFCLASS64 }

// header holds the table places of the file header.
type header struct {
	phoff, shoff               uint64
	phentsize, phnum           uint64
	shentsize, shnum, shstrndx uint64
}

func (f *File) header() (h header, err error) {
	n := 64
	if !f.Is64() {
		n = 52
	}
	b := make([]byte, n)
	if err := f.src.Fill(b, 0); err != nil {
		return h, err
	}
	c := f.cursor(b[elf.EI_NIDENT:])
	f.Type, f.Machine = elf.Type(c.u16()), elf.Machine(c.u16())
	c.u32() // version
	f.Entry = c.addr()
	h.phoff, h.shoff = c.addr(), c.addr()
	f.Flags = c.u32()
	c.u16() // size of this header
	h.phentsize, h.phnum = uint64(c.u16()), uint64(c.u16())
	h.shentsize, h.shnum, h.shstrndx = uint64(c.u16()), uint64(c.u16()), uint64(c.u16())
	return h, nil
}

func (f *File) readProgs(h header) error {
	if h.phnum == 0xffff { // PN_XNUM: the count is in section 0
		s, err := f.sectionZero(h)
		if err != nil {
			return err
		}
		h.phnum = uint64(s.Info)
	}
	entry := uint64(56)
	if !f.Is64() {
		entry = 32
	}
	if h.phnum == 0 {
		return nil
	}
	if h.phentsize < entry {
		return formatErr(int64(h.phoff), "program header of %d bytes, expected %d", h.phentsize, entry)
	}
	b, err := f.table(h.phoff, h.phentsize, h.phnum, "program headers")
	if err != nil {
		return err
	}
	f.Progs = make([]Prog, h.phnum)
	for i := range f.Progs {
		c := f.cursor(b[uint64(i)*h.phentsize:])
		p := &f.Progs[i]
		p.Type = elf.ProgType(c.u32())
		if f.Is64() {
			p.Flags = elf.ProgFlag(c.u32())
		}
		p.Off, p.Vaddr, p.Paddr = c.addr(), c.addr(), c.addr()
		p.Filesz, p.Memsz = c.addr(), c.addr()
		if !f.Is64() {
			p.Flags = elf.ProgFlag(c.u32())
		}
		p.Align = c.addr()
	}
	return nil
}

func (f *File) sectionSize() uint64 {
	if f.Is64() {
		return 64
	}
	return 40
}

func (f *File) sectionZero(h header) (Section, error) {
	if h.shoff == 0 || h.shentsize < f.sectionSize() {
		return Section{}, formatErr(0, "extended counts without a section header")
	}
	b, err := f.table(h.shoff, h.shentsize, 1, "section header 0")
	if err != nil {
		return Section{}, err
	}
	s, _ := f.section(b)
	return s, nil
}

func (f *File) readSections(h header) error {
	if h.shoff == 0 {
		return nil
	}
	if h.shentsize < f.sectionSize() {
		return formatErr(int64(h.shoff), "section header of %d bytes, expected %d", h.shentsize, f.sectionSize())
	}
	if h.shnum == 0 || h.shstrndx == uint64(elf.SHN_XINDEX) {
		s, err := f.sectionZero(h)
		if err != nil {
			return err
		}
		if h.shnum == 0 {
			h.shnum = s.Size
		}
		if h.shstrndx == uint64(elf.SHN_XINDEX) {
			h.shstrndx = uint64(s.Link)
		}
	}
	b, err := f.table(h.shoff, h.shentsize, h.shnum, "section headers")
	if err != nil {
		return err
	}
	f.Sections = make([]Section, h.shnum)
	names := make([]uint32, h.shnum)
	for i := range f.Sections {
		f.Sections[i], names[i] = f.section(b[uint64(i)*h.shentsize:])
		f.Sections[i].Index = i
	}
	if h.shstrndx == 0 || h.shstrndx >= h.shnum {
		return nil // no names; the types still tell most of it
	}
	table, err := f.text(&f.Sections[h.shstrndx])
	if err != nil {
		return err
	}
	for i := range f.Sections {
		f.Sections[i].Name, _ = cString(table, uint64(names[i]))
	}
	return nil
}

func (f *File) section(b []byte) (s Section, name uint32) {
	c := f.cursor(b)
	name, s.Type = c.u32(), elf.SectionType(c.u32())
	s.Flags = elf.SectionFlag(c.addr())
	s.Addr, s.Offset, s.Size = c.addr(), c.addr(), c.addr()
	s.Link, s.Info = c.u32(), c.u32()
	s.Align, s.EntSize = c.addr(), c.addr()
	return s, name
}

// Section returns the section of that index, or nil.
func (f *File) Section(i int) *Section {
	if i < 0 || i >= len(f.Sections) {
		return nil
	}
	return &f.Sections[i]
}

// SectionByName returns the first section of that name, or nil.
func (f *File) SectionByName(name string) *Section {
	for i := range f.Sections {
		if f.Sections[i].Name == name {
			return &f.Sections[i]
		}
	}
	return nil
}

// Reader reads the bytes of a section as they are in the file; a section
// without bytes there (SHT_NOBITS) gives an empty one.
func (f *File) Reader(s *Section) (*io.SectionReader, error) {
	if s.Type == elf.SHT_NOBITS || s.Size == 0 {
		return io.NewSectionReader(f.src.R, 0, 0), nil
	}
	return f.src.Section(s.Offset, s.Size, "section "+s.Name)
}

// Data reads a whole section. It allocates at most the size of the file.
func (f *File) Data(s *Section) ([]byte, error) {
	sr, err := f.Reader(s)
	if err != nil {
		return nil, err
	}
	b := make([]byte, sr.Size())
	if len(b) > 0 {
		if err := f.src.Fill(b, int64(s.Offset)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// text reads a string table. Names are cut out of the one string, so nothing
// is copied twice.
func (f *File) text(s *Section) (string, error) {
	sr, err := f.Reader(s)
	if err != nil {
		return "", err
	}
	return readText(sr)
}

func readText(sr *io.SectionReader) (string, error) {
	b := make([]byte, sr.Size())
	if _, err := io.ReadFull(sr, b); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return "", err
	}
	// Nobody else has b. The tables of a large library have 100 MB of names.
	return unsafe.String(unsafe.SliceData(b), len(b)), nil
}

// Offset translates a virtual address to a place in the file, and tells how
// many bytes of the file follow it in the same segment.
func (f *File) Offset(addr uint64) (off int64, n int64, ok bool) {
	for i := range f.Progs {
		p := &f.Progs[i]
		if p.Type != elf.PT_LOAD || addr < p.Vaddr || addr-p.Vaddr >= p.Filesz {
			continue
		}
		d := addr - p.Vaddr
		at := p.Off + d
		if at < p.Off || at >= uint64(f.src.Size) {
			return 0, 0, false
		}
		return int64(at), int64(min(p.Filesz-d, uint64(f.src.Size)-at)), true
	}
	return 0, 0, false
}

// ReadAddr fills b from a virtual address.
func (f *File) ReadAddr(b []byte, addr uint64) error {
	off, n, ok := f.Offset(addr)
	if !ok || n < int64(len(b)) {
		return formatErr(0, "address 0x%x has no bytes in the file", addr)
	}
	return f.src.Fill(b, off)
}

// ReaderAddr reads n bytes from a virtual address on.
func (f *File) ReaderAddr(addr, n uint64) (*io.SectionReader, error) {
	off, room, ok := f.Offset(addr)
	if !ok || n > uint64(room) {
		return nil, formatErr(0, "%d bytes at address 0x%x are not in the file", n, addr)
	}
	return io.NewSectionReader(f.src.R, off, int64(n)), nil
}

// table reads num entries of size bytes after checking that they are there.
func (f *File) table(off, size, num uint64, what string) ([]byte, error) {
	if num > math.MaxUint32 || size > math.MaxUint32 {
		return nil, formatErr(int64(off), "%d %s of %d bytes", num, what, size)
	}
	return f.src.Bytes(off, size*num, what)
}
