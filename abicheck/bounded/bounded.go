// Package bounded reads parts of a file that nobody vouches for: an offset or
// a count is compared with the file's size before anything is read or
// allocated for it.
package bounded

import (
	"fmt"
	"io"
)

// FormatError says what is wrong with a file and where.
type FormatError struct {
	Format string // such as "elf"
	Off    int64
	Msg    string
}

// Error implements error.
func (e *FormatError) Error() string {
	return fmt.Sprintf("%s: %s at byte 0x%x", e.Format, e.Msg, e.Off)
}

// Errorf returns a FormatError.
func Errorf(format string, off int64, msg string, args ...any) error {
	return &FormatError{format, off, fmt.Sprintf(msg, args...)}
}

// File is a file of a known size. Its methods are safe for use by several
// goroutines.
type File struct {
	Format string // for errors
	R      io.ReaderAt
	Size   int64
}

// Holds returns an error unless n bytes at off are in the file; what names them.
func (f *File) Holds(off, n uint64, what string) error {
	if off > uint64(f.Size) || n > uint64(f.Size)-off {
		return Errorf(f.Format, int64(off), "%s: %d bytes reach past the end of the file (%d bytes)", what, n, f.Size)
	}
	return nil
}

// Fill reads as many bytes at off as b has room for.
func (f *File) Fill(b []byte, off int64) error {
	if err := f.Holds(uint64(off), uint64(len(b)), "read"); err != nil {
		return err
	}
	n, err := f.R.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// Bytes reads n bytes at off.
func (f *File) Bytes(off, n uint64, what string) ([]byte, error) {
	if err := f.Holds(off, n, what); err != nil {
		return nil, err
	}
	b := make([]byte, n)
	return b, f.Fill(b, int64(off))
}

// Section reads n bytes at off piece by piece.
func (f *File) Section(off, n uint64, what string) (*io.SectionReader, error) {
	if err := f.Holds(off, n, what); err != nil {
		return nil, err
	}
	return io.NewSectionReader(f.R, int64(off), int64(n)), nil
}

// spare is what a check may take besides the file's size.
const spare = 64 << 20

// Room is how many things a check may keep that take each bytes of memory, for
// one kind of them to stay within the file's size and 64 MB.
func (f *File) Room(each int) uint64 { return uint64(f.Size+spare) / uint64(each) }
