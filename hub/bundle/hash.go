package bundle

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/manifests"
)

// sampleBytes is how much of a file the Hub wants to see before it decides
// how the file is sent.
const sampleBytes = 512

// gitBytes is the largest file whose git blob id is computed along the way.
// The Hub keeps larger ones in LFS, by SHA-256.
const gitBytes = 16 << 20

// hashFile reads a file once and fills in its digests and sample. It returns
// the base64 digest in the metadata's algorithm.
func hashFile(ctx context.Context, f *client.File, alg manifests.Algorithm, gitID bool) (string, error) {
	r, err := f.Open()
	if err != nil {
		return "", err
	}
	defer r.Close()
	sum := sha256.New()
	var other hash.Hash
	if alg == manifests.SHA512 {
		other = sha512.New()
	}
	var git hash.Hash
	if gitID && f.Size <= gitBytes {
		git = sha1.New()
		fmt.Fprintf(git, "blob %d\x00", f.Size)
	}
	buf := make([]byte, 256<<10)
	for off := int64(0); off < f.Size; {
		if err := ctx.Err(); err != nil {
			return "", context.Cause(ctx)
		}
		n, err := r.ReadAt(buf[:min(int64(len(buf)), f.Size-off)], off)
		if n == 0 && err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return "", err
		}
		if off == 0 {
			f.Sample = append([]byte(nil), buf[:min(n, sampleBytes)]...)
		}
		sum.Write(buf[:n])
		if other != nil {
			other.Write(buf[:n])
		}
		if git != nil {
			git.Write(buf[:n])
		}
		off += int64(n)
	}
	raw := sum.Sum(nil)
	f.SHA256 = hex.EncodeToString(raw)
	if git != nil {
		f.GitOID = hex.EncodeToString(git.Sum(nil))
	}
	if other != nil {
		raw = other.Sum(nil)
	}
	return base64.StdEncoding.EncodeToString(raw), nil
}

// hash fills in the digests, several files at once.
func (b *Bundle) hash(ctx context.Context, parallel int, git bool) error {
	if parallel <= 0 {
		parallel = 4
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	sums := make([][]string, len(b.Variants))
	for n, v := range b.Variants {
		sums[n] = make([]string, len(v.Files))
		for i := range v.Files {
			g.Go(func() error {
				alg := manifests.SHA256
				if v.Metadata.Digest != nil {
					alg = v.Metadata.Digest.Algorithm
				}
				sum, err := hashFile(ctx, &v.Files[i], alg, git)
				sums[n][i] = sum
				if err != nil {
					return fmt.Errorf("variant %s: %s: %w", v.Name, v.Files[i].Path, err)
				}
				return nil
			})
		}
	}
	var rest []*client.File
	if b.Card != nil {
		rest = append(rest, b.Card)
	}
	for i := range b.Benchmarks {
		rest = append(rest, &b.Benchmarks[i])
	}
	for _, f := range rest {
		g.Go(func() error {
			_, err := hashFile(ctx, f, manifests.SHA256, git)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for n, v := range b.Variants {
		v.sums = map[string]string{}
		hexes := map[string]string{}
		for i, f := range v.Files {
			v.sums[f.Path] = sums[n][i]
			hexes[f.Path] = f.SHA256
		}
		v.Digest = lock.VariantDigest(hexes)
	}
	return nil
}
