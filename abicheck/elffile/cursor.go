package elffile

import (
	"encoding/binary"
	"strings"
)

// cursor reads fields one after another. The caller has checked the length;
// a field past the end reads as zero so that no input can panic.
type cursor struct {
	b     []byte
	order binary.ByteOrder
	wide  bool
}

func (f *File) cursor(b []byte) *cursor { return &cursor{b, f.Order, f.Is64()} }

func (c *cursor) take(n int) []byte {
	if len(c.b) < n {
		c.b = nil
		return make([]byte, n)
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

func (c *cursor) u16() uint16 { return c.order.Uint16(c.take(2)) }
func (c *cursor) u32() uint32 { return c.order.Uint32(c.take(4)) }
func (c *cursor) u64() uint64 { return c.order.Uint64(c.take(8)) }

// addr reads an address of the file's class.
func (c *cursor) addr() uint64 {
	if c.wide {
		return c.u64()
	}
	return uint64(c.u32())
}

// cString cuts the string at off out of a string table.
func cString(table string, off uint64) (string, bool) {
	if off >= uint64(len(table)) {
		return "", false
	}
	s := table[off:]
	if i := strings.IndexByte(s, 0); i >= 0 {
		return s[:i], true
	}
	return "", false
}
