package machofile

import (
	"debug/macho"
	"encoding/binary"
	"io"
)

// Slice is one architecture inside a fat file.
type Slice struct {
	Arch string
	Off  int64
	Size int64
}

// magicFat64 is the fat header with 64-bit offsets.
const magicFat64 = 0xcafebabf

// maxSlices is what the kernel accepts at most; Java class files share the
// magic and have a larger number there.
const maxSlices = 30

// IsFat reports whether the first 8 bytes are those of a fat Mach-O file.
func IsFat(head []byte) bool {
	if len(head) < 8 {
		return false
	}
	magic, n := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
	return (magic == macho.MagicFat || magic == magicFat64) && n > 0 && n <= maxSlices
}

// Slices reads the table of a fat file.
func Slices(r io.ReaderAt, size int64) ([]Slice, error) {
	var head [8]byte
	if size < 8 {
		return nil, formatErr(0, "not a fat file")
	}
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return nil, err
	}
	if !IsFat(head[:]) {
		return nil, formatErr(0, "not a fat file")
	}
	wide := binary.BigEndian.Uint32(head[:]) == magicFat64
	entry := int64(20)
	if wide {
		entry = 32
	}
	n := int64(binary.BigEndian.Uint32(head[4:]))
	if 8+n*entry > size {
		return nil, formatErr(8, "%d architectures reach past the end of the file", n)
	}
	b := make([]byte, n*entry)
	if _, err := r.ReadAt(b, 8); err != nil {
		return nil, err
	}
	var out []Slice
	for i := range n {
		c := fields{b: b[i*entry:], order: binary.BigEndian, wide: wide}
		cpu, sub := macho.Cpu(c.u32()), c.u32()
		off, length := c.word(), c.word()
		if off > uint64(size) || length > uint64(size)-off {
			return nil, formatErr(8+i*entry, "architecture %s reaches past the end of the file", archName(cpu, sub))
		}
		out = append(out, Slice{archName(cpu, sub), int64(off), int64(length)})
	}
	return out, nil
}
