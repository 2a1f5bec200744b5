package xet

import (
	"bytes"
	"fmt"
	"io"

	"github.com/pierrec/lz4/v4"
)

// Limits of the format.
const (
	MaxXorb   = 64<<20 + 1<<20 // bytes of a serialised xorb, with headers
	MaxChunk  = 128 << 10      // bytes of an unpacked chunk
	MaxChunks = 8192           // chunks of a xorb
)

// The schemes by which a chunk is packed.
const (
	schemeNone    = 0
	schemeLZ4     = 1
	schemeGrouped = 2 // LZ4 over bytes grouped by their index modulo 4
)

// Chunk is the place of one chunk in a xorb.
type Chunk struct {
	Offset   int64 // of the payload
	Packed   int   // bytes of the payload
	Unpacked int
	scheme   byte
}

// footer begins what some writers put behind the chunks.
const footer = "XETBLOB"

// Chunks reads the headers of a xorb of size bytes.
func Chunks(r io.ReaderAt, size int64) ([]Chunk, error) {
	if size > MaxXorb {
		return nil, fmt.Errorf("xorb: %d bytes, at most %d are allowed", size, int64(MaxXorb))
	}
	var list []Chunk
	var h [8]byte
	for off := int64(0); off < size; {
		if size-off < 8 {
			return nil, fmt.Errorf("xorb: cut chunk header at byte %d", off)
		}
		if _, err := r.ReadAt(h[:], off); err != nil {
			return nil, fmt.Errorf("xorb: %w", err)
		}
		if string(h[:7]) == footer {
			break
		}
		c := Chunk{Offset: off + 8, Packed: int(h[1]) | int(h[2])<<8 | int(h[3])<<16, scheme: h[4], Unpacked: int(h[5]) | int(h[6])<<8 | int(h[7])<<16}
		switch {
		case h[0] != 0:
			return nil, fmt.Errorf("xorb: chunk version %d at byte %d, want 0", h[0], off)
		case c.scheme > schemeGrouped:
			return nil, fmt.Errorf("xorb: chunk at byte %d is packed by scheme %d, which is not known", off, c.scheme)
		case c.Unpacked == 0 || c.Unpacked > MaxChunk:
			return nil, fmt.Errorf("xorb: chunk at byte %d unpacks to %d bytes, want 1 to %d", off, c.Unpacked, MaxChunk)
		case c.scheme == schemeNone && c.Packed != c.Unpacked:
			return nil, fmt.Errorf("xorb: unpacked chunk at byte %d has %d bytes, not %d", off, c.Packed, c.Unpacked)
		case c.Offset+int64(c.Packed) > size:
			return nil, fmt.Errorf("xorb: chunk at byte %d is cut", off)
		case len(list) == MaxChunks:
			return nil, fmt.Errorf("xorb: more than %d chunks", MaxChunks)
		}
		list = append(list, c)
		off = c.Offset + int64(c.Packed)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("xorb: no chunks")
	}
	return list, nil
}

// Unpack reads one chunk.
func (c Chunk) Unpack(r io.ReaderAt) ([]byte, error) {
	packed := make([]byte, c.Packed)
	if n, err := r.ReadAt(packed, c.Offset); n < len(packed) {
		return nil, fmt.Errorf("xorb: chunk at byte %d: %w", c.Offset, err)
	}
	if c.scheme == schemeNone {
		return packed, nil
	}
	out := make([]byte, c.Unpacked)
	zr := lz4.NewReader(bytes.NewReader(packed))
	if _, err := io.ReadFull(zr, out); err != nil {
		return nil, fmt.Errorf("xorb: chunk at byte %d: lz4: %w", c.Offset, err)
	}
	if n, _ := zr.Read(make([]byte, 1)); n > 0 {
		return nil, fmt.Errorf("xorb: chunk at byte %d unpacks to more than the %d bytes it names", c.Offset, c.Unpacked)
	}
	if c.scheme == schemeGrouped {
		out = ungroup(out)
	}
	return out, nil
}

// ungroup undoes the grouping by index modulo 4: the groups stand one after the
// other, and the first n%4 of them have one byte more.
func ungroup(in []byte) []byte {
	out := make([]byte, len(in))
	at := 0
	for g := range 4 {
		for i := g; i < len(in); i += 4 {
			out[i] = in[at]
			at++
		}
	}
	return out
}
