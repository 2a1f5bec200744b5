package xet

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/pierrec/lz4/v4"
)

// group is what a writer does before it packs.
func group(in []byte) []byte {
	var out []byte
	for g := range 4 {
		for i := g; i < len(in); i += 4 {
			out = append(out, in[i])
		}
	}
	return out
}

// encodeXorb packs chunks, the i-th by schemes[i%len(schemes)].
func encodeXorb(t testing.TB, chunks [][]byte, schemes ...byte) []byte {
	t.Helper()
	var out []byte
	for i, c := range chunks {
		scheme, packed := schemes[i%len(schemes)], c
		if scheme == schemeGrouped {
			packed = group(c)
		}
		if scheme != schemeNone {
			var b bytes.Buffer
			zw := lz4.NewWriter(&b)
			zw.Write(packed)
			if err := zw.Close(); err != nil {
				t.Fatal(err)
			}
			packed = b.Bytes()
		}
		p, u := len(packed), len(c)
		out = append(out, 0, byte(p), byte(p>>8), byte(p>>16), scheme, byte(u), byte(u>>8), byte(u>>16))
		out = append(out, packed...)
	}
	return out
}

func decodeXorb(b []byte) ([][]byte, error) {
	list, err := Chunks(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for _, c := range list {
		data, err := c.Unpack(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		out = append(out, data)
	}
	return out, nil
}

func encodeShard(files []File, flags uint32) []byte {
	rec := func(h Hash, nums ...uint32) []byte {
		b := append([]byte{}, h[:]...)
		for i := range 4 {
			n := uint32(0)
			if i < len(nums) {
				n = nums[i]
			}
			b = binary.LittleEndian.AppendUint32(b, n)
		}
		return b
	}
	out := make([]byte, record)
	copy(out, shardTag)
	out[32] = 2
	for _, f := range files {
		out = append(out, rec(f.Hash, flags, uint32(len(f.Segments)))...)
		for _, s := range f.Segments {
			out = append(out, rec(s.Xorb, 0, s.Unpacked, s.Start, s.End)...)
		}
		if flags&flagVerify != 0 {
			for range f.Segments {
				out = append(out, rec(Hash{9})...)
			}
		}
		sha, err := ParseHash(f.SHA256)
		if err != nil {
			panic(err)
		}
		out = append(out, rec(sha)...)
	}
	return append(append(out, rec(end)...), rec(end)...)
}

func TestXorbRoundTrip(t *testing.T) {
	rng := rand.NewChaCha8([32]byte{1})
	var chunks [][]byte
	for _, n := range []int{1, 2, 3, 4, 5, 1000, MaxChunk} {
		random := make([]byte, n)
		io.ReadFull(rng, random)
		chunks = append(chunks, random, bytes.Repeat([]byte{7}, n), bytes.Repeat([]byte{1, 2, 3, 4, 0, 0, 0, 0, 9}, n/9+1)[:n])
	}
	for _, schemes := range [][]byte{{0}, {1}, {2}, {0, 1, 2}} {
		b := encodeXorb(t, chunks, schemes...)
		got, err := decodeXorb(b)
		if err != nil || !reflect.DeepEqual(got, chunks) {
			t.Errorf("schemes %v: decode(encode(x)) != x: %v", schemes, err)
		}
		if got, err = decodeXorb(append(b, footer+"\x00 anything"...)); err != nil || len(got) != len(chunks) {
			t.Errorf("schemes %v: with a footer: %d chunks, %v", schemes, len(got), err)
		}
		for _, cut := range []int{1, 7, 8, len(b) - 1} {
			if got, err := decodeXorb(b[:cut]); err == nil {
				t.Errorf("a xorb cut at byte %d gave %d chunks", cut, len(got))
			}
		}
	}
}

func TestShardRefuses(t *testing.T) {
	good := []File{{Hash: Hash{1}, SHA256: strings.Repeat("0123456789abcdef", 4), Segments: []Segment{{Xorb: Hash{2}, Unpacked: 5, Start: 0, End: 1}}}}
	for _, flags := range []uint32{flagSHA, flagSHA | flagVerify} {
		b := encodeShard(good, flags)
		if got, err := Shard(b); err != nil || !reflect.DeepEqual(got, good) {
			t.Errorf("flags %x: %+v, %v; want %+v", flags, got, err, good)
		}
		for n := range len(b) - record { // the last record is the second section's
			if got, err := Shard(b[:n]); err == nil {
				t.Errorf("flags %x: a shard cut at byte %d gave %v", flags, n, got)
			}
		}
	}
	if _, err := Shard(encodeShard(good, 0)); err == nil {
		t.Error("a file without SHA-256 was accepted")
	}
}

func FuzzXorb(f *testing.F) {
	f.Add(encodeXorb(f, [][]byte{[]byte("hello"), bytes.Repeat([]byte("x"), 500)}, 0, 1, 2))
	f.Add([]byte("XETBLOB0"))
	f.Fuzz(func(t *testing.T, b []byte) {
		chunks, err := decodeXorb(b)
		if err != nil {
			return
		}
		again, err := decodeXorb(encodeXorb(t, chunks, 2, 0, 1))
		if err != nil || !reflect.DeepEqual(again, chunks) {
			t.Errorf("decode(encode(x)) != x: %v", err)
		}
	})
}

func FuzzShard(f *testing.F) {
	f.Add(encodeShard([]File{{SHA256: strings.Repeat("00", 32), Segments: []Segment{{End: 1}}}}, flagSHA|flagVerify))
	f.Fuzz(func(t *testing.T, b []byte) {
		files, err := Shard(b)
		if err != nil {
			return
		}
		again, err := Shard(encodeShard(files, flagSHA))
		if err != nil || !reflect.DeepEqual(again, files) {
			t.Errorf("decode(encode(x)) != x: %v", err)
		}
	})
}

func FuzzHash(f *testing.F) {
	f.Add(strings.Repeat("0123456789abcdef", 4))
	f.Fuzz(func(t *testing.T, s string) {
		if h, err := ParseHash(s); err == nil && h.String() != s {
			t.Errorf("%q reads back as %q", s, h.String())
		}
	})
}
