package xet

import (
	"encoding/binary"
	"fmt"
)

// File is a file that a shard describes.
type File struct {
	Hash Hash // of the file's chunk tree
	// SHA256 is the lower-case hex digest of the file's bytes.
	SHA256   string
	Segments []Segment
}

// Segment is a run of chunks of one xorb.
type Segment struct {
	Xorb       Hash
	Unpacked   uint32 // bytes
	Start, End uint32 // chunk indexes, End excluded
}

const (
	record     = 48
	shardTag   = "HFRepoMetaData"
	flagVerify = 1 << 31
	flagSHA    = 1 << 30
)

// Shard reads the files of a shard; the section of xorbs is passed over, as the
// xorbs themselves say what they hold.
func Shard(b []byte) ([]File, error) {
	if len(b) < record || string(b[:len(shardTag)]) != shardTag {
		return nil, fmt.Errorf("shard: no %s header", shardTag)
	}
	if v := binary.LittleEndian.Uint64(b[32:]); v != 2 {
		return nil, fmt.Errorf("shard: version %d, want 2", v)
	}
	at := record
	next := func() ([]byte, error) {
		if len(b)-at < record {
			return nil, fmt.Errorf("shard: cut at byte %d", at)
		}
		at += record
		return b[at-record : at], nil
	}
	var files []File
	for {
		r, err := next()
		if err != nil {
			return nil, err
		}
		f := File{Hash: Hash(r[:32])}
		if f.Hash == end {
			return files, nil
		}
		flags, n := binary.LittleEndian.Uint32(r[32:]), int(binary.LittleEndian.Uint32(r[36:]))
		need := n
		if flags&flagVerify != 0 {
			need *= 2
		}
		if n < 0 || need > (len(b)-at)/record {
			return nil, fmt.Errorf("shard: file %d names %d segments, which do not fit", len(files), n)
		}
		for range n {
			r, _ := next() // there is room, as just checked
			s := Segment{
				Xorb: Hash(r[:32]), Unpacked: binary.LittleEndian.Uint32(r[36:]),
				Start: binary.LittleEndian.Uint32(r[40:]), End: binary.LittleEndian.Uint32(r[44:]),
			}
			if s.Start >= s.End || s.End > MaxChunks {
				return nil, fmt.Errorf("shard: file %d has a segment of chunks %d to %d", len(files), s.Start, s.End)
			}
			f.Segments = append(f.Segments, s)
		}
		if flags&flagVerify != 0 {
			at += n * record
		}
		if flags&flagSHA == 0 {
			return nil, fmt.Errorf("shard: file %d carries no SHA-256, so it cannot be checked", len(files))
		}
		if r, err = next(); err != nil {
			return nil, err
		}
		f.SHA256 = Hash(r[:32]).String()
		files = append(files, f)
	}
}

// end closes a section.
var end = func() (h Hash) {
	for i := range h {
		h[i] = 0xff
	}
	return h
}()
