package action

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
)

// Digest names content by its SHA-256 and its length in bytes, as the message
// Digest does. The zero Digest names nothing.
type Digest struct {
	Hash [sha256.Size]byte
	Size int64
}

// Empty is the digest of no bytes at all. It is not the zero Digest.
var Empty = DigestOf(nil)

// DigestOf hashes b.
func DigestOf(b []byte) Digest {
	return Digest{sha256.Sum256(b), int64(len(b))}
}

// Copy copies r to w and returns the digest of what it held.
func Copy(w io.Writer, r io.Reader) (Digest, error) {
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, h), r)
	if err != nil {
		return Digest{}, err
	}
	d := Digest{Size: n}
	h.Sum(d.Hash[:0])
	return d, nil
}

// DigestFile hashes a file of any size without keeping it.
func DigestFile(path string) (Digest, error) {
	f, err := os.Open(path)
	if err != nil {
		return Digest{}, err
	}
	defer f.Close()
	return Copy(io.Discard, f)
}

// ErrChanged is a file that is no longer what its digest says.
var ErrChanged = errors.New("the file changed while the build was running; run it again")

// ParseDigest reads what String prints.
func ParseDigest(s string) (Digest, error) {
	hash, size, ok := strings.Cut(s, "/")
	n, err := strconv.ParseInt(size, 10, 64)
	if !ok || err != nil || n < 0 || strconv.FormatInt(n, 10) != size {
		return Digest{}, fmt.Errorf("digest %q: expected <64 hex digits>/<size>", s)
	}
	return parseHash(hash, n)
}

// FromProto checks a digest that came from a file or a server.
func FromProto(d *repb.Digest) (Digest, error) {
	if d == nil || d.SizeBytes < 0 {
		return Digest{}, fmt.Errorf("digest: missing or with a negative size")
	}
	return parseHash(d.Hash, d.SizeBytes)
}

func parseHash(hash string, size int64) (Digest, error) {
	d := Digest{Size: size}
	raw, err := hex.DecodeString(hash)
	if err != nil || len(raw) != len(d.Hash) || strings.ToLower(hash) != hash {
		return Digest{}, fmt.Errorf("digest %q: expected 64 lower-case hex digits", hash)
	}
	copy(d.Hash[:], raw)
	return d, nil
}

// Hex is the hash in lower-case hex, without the size.
func (d Digest) Hex() string { return hex.EncodeToString(d.Hash[:]) }

// Short is enough of the hash for a person to tell two apart.
func (d Digest) Short() string { return d.Hex()[:12] }

// String prints "<hex>/<size>".
func (d Digest) String() string { return d.Hex() + "/" + strconv.FormatInt(d.Size, 10) }

// IsZero reports whether d names nothing.
func (d Digest) IsZero() bool { return d == Digest{} }

// Proto is d as the protocol's message.
func (d Digest) Proto() *repb.Digest {
	return &repb.Digest{Hash: d.Hex(), SizeBytes: d.Size}
}

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Digest) UnmarshalText(b []byte) (err error) {
	*d, err = ParseDigest(string(b))
	return err
}
