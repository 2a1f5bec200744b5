package machofile

import (
	"bytes"
	"debug/macho"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/thox-ai/thoxbuild/abicheck/bounded"
)

// Version is an OS or library version of a load command: X.Y.Z packed in
// nibbles as xxxx.yy.zz.
type Version uint32

// Major returns X.
func (v Version) Major() int { return int(v >> 16) }

// Minor returns Y.
func (v Version) Minor() int { return int(v >> 8 & 0xff) }

// Patch returns Z.
func (v Version) Patch() int { return int(v & 0xff) }

// String prints X.Y, or X.Y.Z when Z is not zero.
func (v Version) String() string {
	if v.Patch() == 0 {
		return fmt.Sprintf("%d.%d", v.Major(), v.Minor())
	}
	return fmt.Sprintf("%d.%d.%d", v.Major(), v.Minor(), v.Patch())
}

// PlatformMacOS is the platform of LC_BUILD_VERSION for macOS.
const PlatformMacOS = 1

// Dylib is a library that is loaded, or the file's own name.
type Dylib struct {
	Name string
	Weak bool
}

// File is one architecture's Mach-O file.
type File struct {
	Order  binary.ByteOrder
	CPU    macho.Cpu
	SubCPU uint32
	Type   macho.Type
	Flags  uint32

	// MinOS is the deployment target; HasMinOS tells whether any load command
	// gave it. Platform is 0 with the older LC_VERSION_MIN commands, which
	// exist only for Apple's first four systems; then VersionMin is the
	// command.
	MinOS      Version
	HasMinOS   bool
	Platform   uint32
	ID         string
	Dylibs     []Dylib
	Rpaths     []string
	Segments   []Segment
	Signature  bool
	FuncStarts Span
	symtab     Span
	strtab     Span
	signature  Span
	indirect   Span
	dataInCode Span
	fixups     Span

	src    bounded.File
	wide   bool
	symsFn func() (symbols, error)
}

// Span is a part of the file.
type Span struct{ Off, Size uint64 }

// Segment is a segment with its sections.
type Segment struct {
	Name              string
	Addr, Memsz       uint64
	Off, Filesz       uint64
	MaxProt, InitProt uint32
	Sections          []Section
}

// Section is one section. The low byte of Flags is its type.
type Section struct {
	Name, Segment string
	Addr, Size    uint64
	Off           uint64
	RelOff        uint64
	NReloc        uint32
	Flags         uint32
	Align         uint32
	// Reserved1 is the first entry of the section in the indirect symbol
	// table, where its type is one of pointers or stubs.
	Reserved1 uint32
}

// Types of sections.
const (
	NonLazyPointers = 0x6
	LazyPointers    = 0x7
	Stubs           = 0x8
	InitPointers    = 0x9
	TermPointers    = 0xa
	InitOffsets     = 0x16
)

// Type is what kind of section it is.
func (s *Section) Type() uint32 { return s.Flags & 0xff }

// Code reports whether the section holds instructions.
func (s *Section) Code() bool {
	const pureInstructions, someInstructions = 0x80000000, 0x400
	return s.Flags&(pureInstructions|someInstructions) != 0
}

// Load commands that debug/macho has no name for.
const (
	lcSegment       = 0x1
	lcSymtab        = 0x2
	lcLoadDylib     = 0xc
	lcIDDylib       = 0xd
	lcLoadWeak      = 0x80000018
	lcSegment64     = 0x19
	lcRpath         = 0x8000001c
	lcCodeSignature = 0x1d
	lcReexport      = 0x8000001f
	lcLazyLoad      = 0x20
	lcDysymtab      = 0xb
	lcVersionMinMac = 0x24
	lcFuncStarts    = 0x26
	lcDataInCode    = 0x29
	lcUpward        = 0x80000023
	lcBuildVersion  = 0x32
	lcChainedFixups = 0x80000034
)

// maxCommands bounds the load commands that are read, far above any real file.
const maxCommands = 16 << 20

// New reads the load commands of a Mach-O file of the given size.
func New(r io.ReaderAt, size int64) (*File, error) {
	f := &File{src: bounded.File{Format: "mach-o", R: r, Size: size}}
	var head [32]byte
	if err := f.src.Fill(head[:28], 0); err != nil {
		return nil, err
	}
	switch {
	case binary.LittleEndian.Uint32(head[:]) == macho.Magic64:
		f.Order, f.wide = binary.LittleEndian, true
	case binary.LittleEndian.Uint32(head[:]) == macho.Magic32:
		f.Order = binary.LittleEndian
	case binary.BigEndian.Uint32(head[:]) == macho.Magic64:
		f.Order, f.wide = binary.BigEndian, true
	case binary.BigEndian.Uint32(head[:]) == macho.Magic32:
		f.Order = binary.BigEndian
	default:
		return nil, formatErr(0, "not a Mach-O file")
	}
	u32 := func(i int) uint32 { return f.Order.Uint32(head[4*i:]) }
	f.CPU, f.SubCPU, f.Type, f.Flags = macho.Cpu(u32(1)), u32(2), macho.Type(u32(3)), u32(6)
	count, length := u32(4), u32(5)
	start := int64(28)
	if f.wide {
		start = 32
	}
	if length > maxCommands {
		return nil, formatErr(20, "load commands of %d bytes", length)
	}
	b, err := f.src.Bytes(uint64(start), uint64(length), "load commands")
	if err != nil {
		return nil, err
	}
	for i := range count {
		if len(b) < 8 {
			return nil, formatErr(start, "load command %d of %d is cut off", i, count)
		}
		cmd, n := f.Order.Uint32(b), f.Order.Uint32(b[4:])
		if n < 8 || uint64(n) > uint64(len(b)) {
			return nil, formatErr(start, "load command %d has a length of %d bytes", i, n)
		}
		if err := f.command(cmd, b[:n], start); err != nil {
			return nil, err
		}
		b = b[n:]
		start += int64(n)
	}
	f.symsFn = sync.OnceValues(f.readSymbols)
	return f, nil
}

// Size is the number of bytes of this file.
func (f *File) Size() int64 { return f.src.Size }

// field reads the i-th 32-bit word of a command, 0 past its end.
func (f *File) field(b []byte, i int) uint32 {
	if len(b) < 4*i+4 {
		return 0
	}
	return f.Order.Uint32(b[4*i:])
}

func (f *File) command(cmd uint32, b []byte, off int64) error {
	span := func(i int) Span { return Span{uint64(f.field(b, i)), uint64(f.field(b, i+1))} }
	name := func() (string, error) {
		at := f.field(b, 2)
		if at < 8 || int(at) >= len(b) {
			return "", formatErr(off, "load command 0x%x has its name outside itself", cmd)
		}
		return cut(b[at:]), nil
	}
	switch cmd {
	case lcSegment, lcSegment64:
		return f.segment(b, cmd == lcSegment64, off)
	case lcSymtab:
		entry := uint64(12)
		if f.wide {
			entry = 16
		}
		f.symtab = Span{uint64(f.field(b, 2)), uint64(f.field(b, 3)) * entry}
		f.strtab = span(4)
	case lcLoadDylib, lcLoadWeak, lcReexport, lcLazyLoad, lcUpward:
		s, err := name()
		if err != nil {
			return err
		}
		f.Dylibs = append(f.Dylibs, Dylib{s, cmd == lcLoadWeak})
	case lcIDDylib:
		s, err := name()
		f.ID = s
		return err
	case lcRpath:
		s, err := name()
		if err != nil {
			return err
		}
		f.Rpaths = append(f.Rpaths, s)
	case lcCodeSignature:
		f.signature = span(2)
		f.Signature = f.signature.Size > 0
	case lcFuncStarts:
		f.FuncStarts = span(2)
	case lcDataInCode:
		f.dataInCode = span(2)
	case lcChainedFixups:
		f.fixups = span(2)
	case lcDysymtab:
		f.indirect = Span{uint64(f.field(b, 14)), 4 * uint64(f.field(b, 15))}
	case lcVersionMinMac:
		// Kept only where LC_BUILD_VERSION does not say it better.
		if !f.HasMinOS {
			f.MinOS, f.HasMinOS, f.Platform = Version(f.field(b, 2)), true, PlatformMacOS
		}
	case lcBuildVersion:
		if !f.HasMinOS || f.field(b, 2) == PlatformMacOS {
			f.Platform, f.MinOS, f.HasMinOS = f.field(b, 2), Version(f.field(b, 3)), true
		}
	}
	return nil
}

func (f *File) segment(b []byte, wide bool, off int64) error {
	head, entry := 56, 68
	if wide {
		head, entry = 72, 80
	}
	if len(b) < head {
		return formatErr(off, "segment command of %d bytes", len(b))
	}
	c := fields{b: b[24:], order: f.Order, wide: wide}
	s := Segment{Name: cut(b[8:24])}
	s.Addr, s.Memsz, s.Off, s.Filesz = c.word(), c.word(), c.word(), c.word()
	s.MaxProt, s.InitProt = c.u32(), c.u32()
	n := c.u32()
	if uint64(n)*uint64(entry) > uint64(len(b)-head) {
		return formatErr(off, "segment %s claims %d sections", s.Name, n)
	}
	for i := range int(n) {
		sb := b[head+i*entry:][:entry]
		c := fields{b: sb[32:], order: f.Order, wide: wide}
		sec := Section{Name: cut(sb[:16]), Segment: cut(sb[16:32])}
		sec.Addr, sec.Size = c.word(), c.word()
		sec.Off, sec.Align = uint64(c.u32()), c.u32()
		sec.RelOff, sec.NReloc, sec.Flags, sec.Reserved1 = uint64(c.u32()), c.u32(), c.u32(), c.u32()
		s.Sections = append(s.Sections, sec)
	}
	f.Segments = append(f.Segments, s)
	return nil
}

// Data reads a section's bytes; one without bytes in the file gives nil.
func (f *File) Data(s *Section) ([]byte, error) {
	if s.zeroFill() {
		return nil, nil
	}
	return f.span(Span{s.Off, s.Size}, "section "+s.Name)
}

func (s *Section) zeroFill() bool {
	const zeroFill, gbZeroFill, threadZeroFill = 1, 0xc, 0x12
	return s.Type() == zeroFill || s.Type() == gbZeroFill || s.Type() == threadZeroFill
}

// Reader reads a section's bytes piece by piece.
func (f *File) Reader(s *Section) (io.Reader, error) {
	if s.zeroFill() {
		return io.LimitReader(nil, 0), nil
	}
	return f.src.Section(s.Off, s.Size, "section "+s.Name)
}

func (f *File) span(s Span, what string) ([]byte, error) {
	return f.src.Bytes(s.Off, s.Size, what)
}

// fields reads numbers one after another; the caller checked the length.
type fields struct {
	b     []byte
	order binary.ByteOrder
	wide  bool
}

func (c *fields) u32() uint32 {
	v := c.order.Uint32(c.b)
	c.b = c.b[4:]
	return v
}

func (c *fields) word() uint64 {
	if !c.wide {
		return uint64(c.u32())
	}
	v := c.order.Uint64(c.b)
	c.b = c.b[8:]
	return v
}

func cut(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return strings.ToValidUTF8(string(b), "?")
}
