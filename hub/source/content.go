package source

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/manifests"
	"golang.org/x/sync/errgroup"
)

// Variants groups files by variant. The keys are the folders under build/;
// the entries keep their full paths, sorted.
func Variants(files []client.Entry) map[string][]client.Entry {
	out := map[string][]client.Entry{}
	for _, e := range files {
		parts := strings.SplitN(e.Path, "/", 3)
		if len(parts) == 3 && parts[0] == "build" && !e.Dir {
			out[parts[1]] = append(out[parts[1]], e)
		}
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b client.Entry) int { return strings.Compare(a.Path, b.Path) })
	}
	return out
}

// Within is the path of an entry relative to its variant.
func Within(e client.Entry) string {
	parts := strings.SplitN(e.Path, "/", 3)
	return parts[len(parts)-1]
}

// Sums are the digests of one file's bytes, in hex.
type Sums struct{ SHA256, GitOID string }

// ETag is what a Hub's cache would call the file: as the source names it, else
// by the git blob id.
func (s Sums) ETag(e client.Entry) string {
	if e.SHA256 != "" {
		return s.SHA256
	}
	return s.GitOID
}

// Copy streams a file into w (which may be nil) and hashes it on the way. It
// fails when the size or a digest that the source claims is not met.
func Copy(ctx context.Context, s Source, e client.Entry, w io.Writer) (Sums, error) {
	r, err := s.Open(ctx, e)
	if err != nil {
		return Sums{}, err
	}
	defer r.Close()
	sum, git := sha256.New(), sha1.New()
	fmt.Fprintf(git, "blob %d\x00", e.Size)
	dst := io.MultiWriter(sum, git)
	if w != nil {
		dst = io.MultiWriter(sum, git, w)
	}
	n, err := io.CopyBuffer(dst, io.LimitReader(Cancelable(ctx, r), e.Size+1), make([]byte, 128<<10))
	if err != nil {
		return Sums{}, fmt.Errorf("%s: %w", e.Path, err)
	}
	got := Sums{hex.EncodeToString(sum.Sum(nil)), hex.EncodeToString(git.Sum(nil))}
	switch {
	case n != e.Size:
		return got, fmt.Errorf("%s: %w: %d bytes or more, expected %d", e.Path, ErrCorrupt, n, e.Size)
	case e.SHA256 != "" && got.SHA256 != e.SHA256:
		return got, fmt.Errorf("%s: %w: SHA-256 %s, the source lists %s", e.Path, ErrCorrupt, got.SHA256, e.SHA256)
	case e.SHA256 == "" && e.OID != "" && len(e.OID) == 40 && got.GitOID != e.OID:
		return got, fmt.Errorf("%s: %w: git blob id %s, the source lists %s", e.Path, ErrCorrupt, got.GitOID, e.OID)
	}
	return got, nil
}

// ErrCorrupt says that a source's bytes are not what the source itself lists.
var ErrCorrupt = errors.New("the bytes are not what was listed")

// Cancelable is r until ctx ends; then a read fails with what ended it.
func Cancelable(ctx context.Context, r io.Reader) io.Reader { return &ctxReader{ctx, r} }

type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (c *ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

// Hash reads the files of a variant and returns their digests by path within
// it.
func Hash(ctx context.Context, s Source, files []client.Entry) (map[string]Sums, error) {
	sums := make([]Sums, len(files))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for i, e := range files {
		g.Go(func() (err error) {
			sums[i], err = Copy(gctx, s, e, nil)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	out := map[string]Sums{}
	for i, e := range files {
		out[Within(e)] = sums[i]
	}
	return out, nil
}

// Metadata reads a variant's metadata. The bytes are returned as they are.
func Metadata(ctx context.Context, s Source, files []client.Entry) (*manifests.Metadata, []byte, error) {
	for _, e := range files {
		if Within(e) != manifests.MetadataFile {
			continue
		}
		if e.Size > maxMetadata {
			return nil, nil, fmt.Errorf("%s: %d bytes: expected at most %d", e.Path, e.Size, maxMetadata)
		}
		var buf strings.Builder
		if _, err := Copy(ctx, s, e, &buf); err != nil {
			return nil, nil, err
		}
		m, err := manifests.ParseMetadata([]byte(buf.String()))
		if err != nil {
			err = fmt.Errorf("%s: %w", e.Path, err)
		}
		return m, []byte(buf.String()), err
	}
	return nil, nil, fmt.Errorf("no %s: %w", manifests.MetadataFile, fs.ErrNotExist)
}

const maxMetadata = 32 << 20

// Digest is the variant's digest from the digests of its files.
func Digest(sums map[string]Sums) lock.Digest {
	hexes := map[string]string{}
	for name, s := range sums {
		hexes[name] = s.SHA256
	}
	return lock.VariantDigest(hexes)
}
