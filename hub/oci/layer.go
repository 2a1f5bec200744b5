package oci

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/zstd"
	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/source"
)

// fileLayer is a compressed layer in a file of ours, so that its size does not
// matter and every attempt reads it from the start.
type fileLayer struct {
	path   string
	digest v1.Hash
	size   int64
}

// writeLayer packs files into a layer below dir. The bytes depend on the
// files' paths and contents only: entries are sorted, every mode, owner and
// time is fixed, and the compressor runs in one thread at a fixed level.
func writeLayer(ctx context.Context, dir string, files []client.File) (*fileLayer, error) {
	f, err := os.CreateTemp(dir, "layer-*.tar.zst")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sum := sha256.New()
	count := &counter{}
	buf := bufio.NewWriterSize(io.MultiWriter(f, sum, count), 1<<20)
	zw, err := zstd.NewWriter(buf, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(4<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	if err := writeTar(ctx, zw, files); err != nil {
		_ = zw.Close()
		return nil, err
	}
	if err := zw.Close(); err != nil {
		return nil, err
	}
	if err := buf.Flush(); err != nil {
		return nil, err
	}
	return &fileLayer{f.Name(), v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}, count.n}, f.Close()
}

type counter struct{ n int64 }

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) { c.n += int64(len(p)); return len(p), nil }

// epoch is the time of every entry. Some readers take zero for "not set".
var epoch = time.Unix(1, 0).UTC()

func writeTar(ctx context.Context, w io.Writer, files []client.File) error {
	tw := tar.NewWriter(w)
	dirs := map[string]bool{".": true}
	for _, f := range files {
		for _, d := range parents(f.Path) {
			if dirs[d] {
				continue
			}
			dirs[d] = true
			if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d + "/", Mode: 0o755, ModTime: epoch, Format: tar.FormatPAX}); err != nil {
				return err
			}
		}
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Size: f.Size, Mode: 0o644, ModTime: epoch, Format: tar.FormatPAX}); err != nil {
			return err
		}
		if err := copyChecked(ctx, tw, f); err != nil {
			return err
		}
	}
	return tw.Close()
}

func parents(p string) (out []string) {
	for d := path.Dir(p); d != "."; d = path.Dir(d) {
		out = append(out, d)
	}
	slices.Reverse(out)
	return out
}

// copyChecked copies a file and holds it to the digest that it was read with
// before.
func copyChecked(ctx context.Context, w io.Writer, f client.File) error {
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), source.Cancelable(ctx, io.NewSectionReader(r, 0, f.Size)))
	if err != nil {
		return err
	}
	if n != f.Size || hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("%s: changed while it was being published", f.Path)
	}
	return nil
}
