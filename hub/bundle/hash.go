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

	"github.com/thox-ai/thoxbuild/hub/client"
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
