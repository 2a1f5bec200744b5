package bounded_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/thox-ai/thoxbuild/abicheck/bounded"
)

// TestFile asks for bytes inside, at the edge and past it; sums that overflow
// are past it.
func TestFile(t *testing.T) {
	f := &bounded.File{Format: "x", R: bytes.NewReader([]byte("0123456789")), Size: 10}
	for _, c := range []struct {
		off, n uint64
		want   string
	}{
		{0, 10, "0123456789"}, {9, 1, "9"}, {10, 0, ""}, {3, 4, "3456"},
		{10, 1, "-"}, {11, 0, "-"}, {5, 6, "-"}, {1, math.MaxUint64, "-"}, {math.MaxUint64, 1, "-"}, {1 << 63, 1 << 63, "-"},
	} {
		b, err := f.Bytes(c.off, c.n, "table")
		r, err2 := f.Section(c.off, c.n, "table")
		var fe *bounded.FormatError
		if c.want == "-" {
			if !errors.As(err, &fe) || !errors.As(err2, &fe) || fe.Off != int64(c.off) {
				t.Errorf("%d bytes at %d: %v and %v, want an error of the place", c.n, c.off, err, err2)
			}
			continue
		}
		if err != nil || err2 != nil || string(b) != c.want {
			t.Errorf("%d bytes at %d: %q, %v, %v", c.n, c.off, b, err, err2)
			continue
		}
		if s, err := io.ReadAll(r); err != nil || string(s) != c.want {
			t.Errorf("%d bytes at %d, piece by piece: %q, %v", c.n, c.off, s, err)
		}
	}
	if err := f.Fill(make([]byte, 4), -1); err == nil {
		t.Error("read before the start")
	}
}

// TestCut reads a file that became shorter than it was.
func TestCut(t *testing.T) {
	f := &bounded.File{Format: "x", R: bytes.NewReader([]byte("01234")), Size: 10}
	if _, err := f.Bytes(2, 6, "table"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
}
