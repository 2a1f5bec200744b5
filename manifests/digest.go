package manifests

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// MetadataFile and SignatureFile are the two files of a variant that its
// digest leaves out: one holds the digest, the other signs the first.
const (
	MetadataFile  = "metadata.json"
	SignatureFile = "metadata.json.sigstore"
)

func (a Algorithm) new() hash.Hash {
	switch a {
	case SHA256:
		return sha256.New()
	case SHA512:
		return sha512.New()
	}
	return nil
}

// HashVariant computes the digest of a variant's folder: a hash for every
// regular file but the metadata and its signature at the top and Python's
// bytecode. Links to files count as the file, links to folders are left out,
// and a link to nothing is an error.
//
// Unlike the reference, which tests the whole path for __pycache__ and so
// finds no file at all when the variant itself lies below such a folder, only
// the path inside the variant is looked at.
func HashVariant(ctx context.Context, dir string, a Algorithm) (*Digest, error) {
	if a.new() == nil {
		return nil, fmt.Errorf("digest of %s: unknown algorithm %q; expected sha256 or sha512", dir, a)
	}
	d := &Digest{Algorithm: a, Files: map[string]string{}}
	err := filepath.WalkDir(dir, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if e.IsDir() {
			if e.Name() == "__pycache__" && name != "." {
				return fs.SkipDir
			}
			return nil
		}
		if SkipDigest(name) {
			return nil
		}
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return nil
		}
		d.Files[strings.ToValidUTF8(name, "\ufffd")], err = hashFile(file, a)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("digest of %s: %w", dir, err)
	}
	return d, nil
}

// SkipDigest reports whether the digest leaves a file out. The path is
// relative to the variant, with forward slashes.
func SkipDigest(name string) bool {
	return name == MetadataFile || name == SignatureFile || path.Ext(name) == ".pyc" && path.Base(name) != ".pyc" ||
		slices.Contains(strings.Split(name, "/"), "__pycache__")
}

func hashFile(file string, a Algorithm) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return HashReader(f, a)
}

// HashReader returns a digest's value for the bytes of r.
func HashReader(r io.Reader, a Algorithm) (string, error) {
	h := a.new()
	if h == nil {
		return "", fmt.Errorf("unknown digest algorithm %q", a)
	}
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil)), nil
}

// DifferenceKind is a way in which two digests differ.
type DifferenceKind string

// The ways in which digests differ, in the order in which Compare lists them.
const (
	AlgorithmMismatch DifferenceKind = "algorithm-mismatch"
	FileMissing       DifferenceKind = "missing-file"
	FileMismatch      DifferenceKind = "mismatch"
	UnknownFile       DifferenceKind = "unknown-file"
)

// Difference is one difference between an expected and an actual digest.
type Difference struct {
	Kind DifferenceKind
	// File is empty for AlgorithmMismatch.
	File             string
	Expected, Actual string
}

// String prints the difference on one line.
func (d Difference) String() string {
	switch d.Kind {
	case AlgorithmMismatch:
		return fmt.Sprintf("digest algorithm: expected %s, got %s", d.Expected, d.Actual)
	case FileMissing:
		return d.File + ": the digest lists this file, but it is missing"
	case FileMismatch:
		return fmt.Sprintf("%s: expected digest %s, got %s", d.File, d.Expected, d.Actual)
	default:
		return d.File + ": not listed in the digest"
	}
}

// Compare lists how actual differs from d, the digest that was promised: the
// algorithm first (and then nothing else, since values cannot be compared),
// the listed files in order of their names, then the files that are not
// listed. An empty list means that they are equal.
func (d *Digest) Compare(actual *Digest) (diffs []Difference) {
	if d.Algorithm != actual.Algorithm {
		return []Difference{{Kind: AlgorithmMismatch, Expected: string(d.Algorithm), Actual: string(actual.Algorithm)}}
	}
	for _, f := range slices.Sorted(maps.Keys(d.Files)) {
		want := d.Files[f]
		switch got, ok := actual.Files[f]; {
		case !ok:
			diffs = append(diffs, Difference{Kind: FileMissing, File: f, Expected: want})
		case got != want:
			diffs = append(diffs, Difference{Kind: FileMismatch, File: f, Expected: want, Actual: got})
		}
	}
	for _, f := range slices.Sorted(maps.Keys(actual.Files)) {
		if _, ok := d.Files[f]; !ok {
			diffs = append(diffs, Difference{Kind: UnknownFile, File: f, Actual: actual.Files[f]})
		}
	}
	return diffs
}

// ErrNoDigest says that a metadata.json carries no digest to verify.
var ErrNoDigest = errors.New("metadata.json holds no digest")

// DigestError says that a variant's files are not what its metadata lists.
type DigestError struct {
	Dir   string
	Diffs []Difference
}

// Error implements error.
func (e *DigestError) Error() string {
	lines := make([]string, len(e.Diffs))
	for i, d := range e.Diffs {
		lines[i] = d.String()
	}
	return fmt.Sprintf("%s differs from its digest:\n  %s", e.Dir, strings.Join(lines, "\n  "))
}

// VerifyVariant reads a variant's metadata and compares its digest with the
// files. The error is ErrNoDigest or a *DigestError, wrapped, when the files
// could be read but are not what was promised.
func VerifyVariant(ctx context.Context, dir string) (*Metadata, error) {
	file := filepath.Join(dir, MetadataFile)
	data, err := readLimited(file, maxMetadataBytes)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	m, err := ParseMetadata(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if m.Digest == nil {
		return m, fmt.Errorf("%s: %w", file, ErrNoDigest)
	}
	actual, err := HashVariant(ctx, dir, m.Digest.Algorithm)
	if err != nil {
		return m, err
	}
	if diffs := m.Digest.Compare(actual); len(diffs) > 0 {
		return m, &DigestError{dir, diffs}
	}
	return m, nil
}

func (d *Digest) validate() error {
	h := d.Algorithm.new()
	if h == nil {
		return fmt.Errorf("digest.algorithm: %q: expected sha256 or sha512", d.Algorithm)
	}
	for _, f := range slices.Sorted(maps.Keys(d.Files)) {
		if raw, err := base64.StdEncoding.DecodeString(d.Files[f]); err != nil || len(raw) != h.Size() || base64.StdEncoding.EncodeToString(raw) != d.Files[f] {
			return fmt.Errorf("digest.files: %q: expected %d bytes in padded base64, got %q", f, h.Size(), d.Files[f])
		}
	}
	return nil
}
