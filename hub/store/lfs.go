package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Pointer names an LFS object; its encoding is what git stores in its place.
type Pointer struct {
	SHA256 string // 64 lower-case hex digits
	Size   int64  // -1 when the sender did not say
}

// Encode is the pointer file's content.
func (p Pointer) Encode() []byte {
	return fmt.Appendf(nil, "version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", p.SHA256, p.Size)
}

// ParsePointer reads a pointer file; ok is false for any other content.
func ParsePointer(b []byte) (p Pointer, ok bool) {
	rest, ok := strings.CutPrefix(string(b), "version https://git-lfs.github.com/spec/v1\noid sha256:")
	if !ok || len(rest) < 64 {
		return p, false
	}
	p.SHA256 = rest[:64]
	num, ok := strings.CutPrefix(rest[64:], "\nsize ")
	num, nl := strings.CutSuffix(num, "\n")
	n, err := strconv.ParseInt(num, 10, 64)
	if !ok || !nl || err != nil || n < 0 || CheckSHA256(p.SHA256) != nil {
		return Pointer{}, false
	}
	p.Size = n
	return p, string(p.Encode()) == string(b)
}

// CheckSHA256 checks that s is 64 lower-case hex digits.
func CheckSHA256(s string) error {
	if len(s) != 64 || !isHex(s) {
		return fmt.Errorf("%w SHA-256 %q: want 64 lower-case hex digits", ErrInvalid, clip(s))
	}
	return nil
}

// Temp is a file that is being received. It hashes what is written.
type Temp struct {
	t    *tempFile
	sum  hash.Hash
	size int64
}

func newHash() hash.Hash { return sha256.New() }

func newTemp(t *tempFile) *Temp { return &Temp{t: t, sum: newHash()} }

func (t *Temp) Write(p []byte) (int, error) {
	n, err := t.t.Write(p)
	t.sum.Write(p[:n])
	t.size += int64(n)
	return n, err
}

// Size is the number of bytes written.
func (t *Temp) Size() int64 { return t.size }

// SHA256 is the hex digest of the bytes written.
func (t *Temp) SHA256() string { return hex.EncodeToString(t.sum.Sum(nil)) }

// Reader reads what has been written, from the start.
func (t *Temp) Reader() *io.SectionReader { return io.NewSectionReader(t.t.f, 0, t.size) }

// Close removes the file unless it has been put in its place.
func (t *Temp) Close() error { t.t.discard(); return nil }

func (r *Repo) lfsPath(sha string) string {
	return filepath.Join(r.dir, "lfs", "objects", sha[:2], sha[2:4], sha)
}

// PutLFS keeps a received file as an LFS object. The digest must be sha unless
// that is empty.
func (r *Repo) PutLFS(t *Temp, sha string) (Pointer, error) {
	got := t.SHA256()
	if sha != "" && sha != got {
		return Pointer{}, fmt.Errorf("%w content: its SHA-256 is %s, not %s", ErrInvalid, got, clip(sha))
	}
	if n, err := r.LFSSize(got); err == nil && n == t.size {
		return Pointer{got, n}, nil
	}
	return Pointer{got, t.size}, t.t.commit(r.lfsPath(got))
}

// LFSSize is the length of an LFS object, or ErrNoObject.
func (r *Repo) LFSSize(sha string) (int64, error) {
	if err := CheckSHA256(sha); err != nil {
		return 0, err
	}
	fi, err := os.Stat(r.lfsPath(sha))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("LFS object %s: %w", sha, ErrNoObject)
	}
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

// OpenLFS opens an LFS object for reading.
func (r *Repo) OpenLFS(sha string) (*os.File, error) {
	if err := CheckSHA256(sha); err != nil {
		return nil, err
	}
	f, err := os.Open(r.lfsPath(sha))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("LFS object %s: %w", sha, ErrNoObject)
	}
	return f, err
}
