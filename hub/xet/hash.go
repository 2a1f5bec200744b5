package xet

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// Hash is 32 bytes as they stand in shards.
type Hash [32]byte

// String is the form of URLs: each group of eight bytes is printed as one
// little-endian number.
func (h Hash) String() string {
	var b [32]byte
	for i := 0; i < 32; i += 8 {
		binary.BigEndian.PutUint64(b[i:], binary.LittleEndian.Uint64(h[i:]))
	}
	return hex.EncodeToString(b[:])
}

// ParseHash reads what String prints.
func ParseHash(s string) (Hash, error) {
	var b, h Hash
	if len(s) != 64 || strings.ToLower(s) != s {
		return h, fmt.Errorf("xet hash: %d characters, want 64 lower-case hex digits", len(s))
	}
	if _, err := hex.Decode(b[:], []byte(s)); err != nil {
		return h, fmt.Errorf("xet hash: want 64 lower-case hex digits: %w", err)
	}
	for i := 0; i < 32; i += 8 {
		binary.LittleEndian.PutUint64(h[i:], binary.BigEndian.Uint64(b[i:]))
	}
	return h, nil
}
