package isa

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"iter"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
	"github.com/thox-ai/thoxbuild/internal/offheap"
)

// span is a range of addresses.
type span struct{ addr, size uint64 }

// unwinding is the section .eh_frame, nil for none.
func unwinding(f *elffile.File) *elffile.Section {
	s := f.SectionByName(".eh_frame")
	if s == nil || s.Type == elf.SHT_NOBITS {
		return nil
	}
	return s
}

// maxFrames is a bound of how many ranges frames finds.
func maxFrames(f *elffile.File) int {
	const each = 380 // bytes that a range and its function need
	most := f.Room(each)
	if s := unwinding(f); s != nil {
		return int(min(most, s.Size/leastFrame))
	}
	return 0
}

// frames reads the function ranges of .eh_frame. A stripped library keeps
// them: they are what unwinding works by. Records that do not fit are skipped.
func frames(f *elffile.File, found func(span)) error {
	s := unwinding(f)
	if s == nil {
		return nil
	}
	r, err := f.Reader(s)
	if err != nil {
		return err
	}
	var mem offheap.Arena
	defer mem.Free()
	b, err := offheap.Make[byte](&mem, int(r.Size()))
	if err != nil {
		return err
	}
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	n, most := 0, maxFrames(f)
	for s := range parseFrames(b, s.Addr) {
		if n++; n > most {
			return fmt.Errorf(".eh_frame: a file of %d bytes is read with %d ranges at most", f.Size(), most)
		}
		found(s)
	}
	return nil
}

// Pointer encodings of DWARF exception tables that compilers use for ranges.
const (
	ehOmit  = 0xff
	ehPCRel = 0x10
)

// leastFrame is how many bytes a range takes: two lengths, an offset and two
// numbers.
const leastFrame = 12

// parseFrames walks the records of an .eh_frame section at addr.
func parseFrames(b []byte, addr uint64) iter.Seq[span] {
	return func(yield func(span) bool) { walkFrames(b, addr, yield) }
}

func walkFrames(b []byte, addr uint64, yield func(span) bool) {
	enc := map[int]byte{} // CIE offset -> encoding of pc_begin
	for at := 0; at+8 <= len(b); {
		n := uint64(binary.LittleEndian.Uint32(b[at:]))
		body := at + 4
		if n == 0 {
			at += 4
			continue // a terminator in the middle: crtend of one object
		}
		if n == 0xffffffff {
			if at+20 > len(b) {
				break
			}
			n = binary.LittleEndian.Uint64(b[at+4:])
			body = at + 12
		}
		if n < 4 || n > uint64(len(b)-body) {
			break
		}
		end := body + int(n)
		id := binary.LittleEndian.Uint32(b[body:])
		if id == 0 {
			enc[at] = cieEncoding(b[body+4 : end])
			at = end
			continue
		}
		cie := body - int(id)
		if e, ok := enc[cie]; ok {
			if s, ok := pcRange(b[body+4:end], addr+uint64(body)+4, e); ok && !yield(s) {
				return
			}
		}
		at = end
	}
}

// cieEncoding finds the "R" augmentation; without one pointers are absolute.
func cieEncoding(b []byte) byte {
	if len(b) < 2 {
		return ehOmit
	}
	b = b[1:] // version
	var aug []byte
	for i, c := range b {
		if c == 0 {
			aug, b = b[:i], b[i+1:]
			break
		}
	}
	if len(aug) == 0 {
		return 0
	}
	if aug[0] != 'z' {
		return ehOmit
	}
	skip := func() { // one LEB128
		for len(b) > 0 {
			c := b[0]
			b = b[1:]
			if c&0x80 == 0 {
				return
			}
		}
	}
	skip() // code alignment
	skip() // data alignment
	skip() // return register
	skip() // length of the augmentation data
	for _, c := range aug[1:] {
		if len(b) == 0 {
			return ehOmit
		}
		switch c {
		case 'R':
			return b[0]
		case 'L':
			b = b[1:]
		case 'P':
			n := ptrSize(b[0])
			if n == 0 || n+1 > len(b) {
				return ehOmit
			}
			b = b[1+n:]
		case 'S', 'B', 'G':
		default:
			return ehOmit
		}
	}
	return 0
}

func ptrSize(enc byte) int {
	switch enc & 0x0f {
	case 0x00, 0x04, 0x0c:
		return 8
	case 0x02, 0x0a:
		return 2
	case 0x03, 0x0b:
		return 4
	}
	return 0
}

// pcRange reads pc_begin and the length behind it at address at.
func pcRange(b []byte, at uint64, enc byte) (s span, ok bool) {
	if enc == ehOmit || enc&0x80 != 0 {
		return s, false
	}
	n := ptrSize(enc)
	if n == 0 || len(b) < 2*n {
		return s, false
	}
	read := func(b []byte, signed bool) uint64 {
		switch n {
		case 2:
			if v := binary.LittleEndian.Uint16(b); signed {
				return uint64(int64(int16(v)))
			} else {
				return uint64(v)
			}
		case 4:
			if v := binary.LittleEndian.Uint32(b); signed {
				return uint64(int64(int32(v)))
			} else {
				return uint64(v)
			}
		}
		return binary.LittleEndian.Uint64(b)
	}
	s.addr = read(b, enc&0x08 != 0)
	switch enc & 0x70 {
	case 0:
	case ehPCRel:
		s.addr += at
	default:
		return s, false
	}
	s.size = read(b[n:], false)
	return s, s.size != 0 && s.addr != 0 && s.addr+s.size > s.addr
}
