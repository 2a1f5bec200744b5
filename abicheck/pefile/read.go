package pefile

import (
	"bytes"
	"strconv"
	"strings"
)

func itoa(n uint16) string { return strconv.Itoa(int(n)) }

// offset translates a relative virtual address; n is how many bytes of the
// file follow it in its section.
func (f *File) offset(rva uint32) (off int64, n int64, err error) {
	for i := range f.Sections {
		s := &f.Sections[i]
		if rva < s.Addr || rva-s.Addr >= s.Filesz {
			continue
		}
		off := int64(s.Off) + int64(rva-s.Addr)
		if off >= f.src.Size {
			break
		}
		return off, min(int64(s.Filesz-(rva-s.Addr)), f.src.Size-off), nil
	}
	return 0, 0, formatErr(0, "relative address 0x%x has no bytes in the file", rva)
}

func (f *File) at(rva uint32, n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	off, room, err := f.offset(rva)
	if err != nil {
		return nil, err
	}
	if int64(n) > room {
		return nil, formatErr(off, "%d bytes reach past their section", n)
	}
	if err := f.spend(off, n); err != nil {
		return nil, err
	}
	return f.bytes(off, n)
}

func (f *File) str(rva uint32) (string, error) {
	off, room, err := f.offset(rva)
	if err != nil {
		return "", err
	}
	// Most names are short; a second read serves the long ones.
	for _, n := range []int64{128, maxName} {
		b, err := f.bytes(off, int(min(n, room)))
		if err != nil {
			return "", err
		}
		if i := bytes.IndexByte(b, 0); i >= 0 {
			if err := f.spend(off, i); err != nil {
				return "", err
			}
			return strings.ToValidUTF8(string(b[:i]), "?"), nil
		}
	}
	return "", formatErr(off, "name without an end")
}

// spend counts bytes of tables and names against the size of the file.
func (f *File) spend(off int64, n int) error {
	if f.left -= int64(n); f.left < 0 {
		return formatErr(off, "imports and exports share their bytes: they add up to more than the file")
	}
	return nil
}

func (f *File) bytes(off int64, n int) ([]byte, error) {
	return f.src.Bytes(uint64(off), uint64(n), "table")
}
