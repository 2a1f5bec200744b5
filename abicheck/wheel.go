package abicheck

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

const (
	// inMemory is how large a member may be to be inflated into memory; a
	// larger one goes to a temporary file that has no name any more.
	inMemory = 2 << 20
	// maxMember bounds what one member may inflate to.
	maxMember = 16 << 30
	// maxRatio is above what deflate can reach (1032:1).
	maxRatio = 1100
)

// wheel checks the libraries inside a wheel, told by content as everywhere.
func (r *run) wheel(ctx context.Context, src source) error {
	zr, err := zip.NewReader(src.data, src.size)
	if ofMachine(err) {
		return err
	}
	if err != nil {
		r.broken(src.subject(), "zip", err)
		return nil
	}
	src.pkg = &rule.Package{Libraries: map[string]bool{}}
	if t := parseWheelName(filepath.Base(src.file)); t != nil && src.member == "" {
		src.claim = claim{from: "wheel tags", wheel: t}
	}
	type member struct {
		f *zip.File
		k kind
	}
	var members []member
	for _, f := range zr.File {
		if err := ctx.Err(); err != nil {
			return err
		}
		if f.FileInfo().IsDir() {
			continue
		}
		k, err := sniffMember(f)
		if ofMachine(err) {
			return err
		}
		if err != nil {
			r.broken(src.in(f.Name, f.Name, other, nil, 0).subject(), "zip", err)
			continue
		}
		if k == other || k == zipKind { // no wheels in wheels
			continue
		}
		src.pkg.Libraries[path.Base(slashed(f.Name))] = true
		members = append(members, member{f, k})
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(r.jobs)
	for _, m := range members {
		g.Go(func() error { return r.member(gctx, src, m.f, m.k) })
	}
	return g.Wait()
}

func sniffMember(f *zip.File) (kind, error) {
	rc, err := f.Open()
	if err != nil {
		return other, err
	}
	defer rc.Close()
	var head [sniffLen]byte
	n, err := io.ReadFull(rc, head[:])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return other, err
	}
	return sniff(f.Name, head[:n]), nil
}

// member gives a member random access and checks it.
func (r *run) member(ctx context.Context, src source, f *zip.File, k kind) error {
	data, size, done, err := inflate(ctx, src.data, f)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if ofMachine(err) {
			return fmt.Errorf("%s: %w; members of wheels are unpacked into TMPDIR", f.Name, err)
		}
		r.broken(src.in(f.Name, f.Name, k, nil, 0).subject(), "zip", err)
		return nil
	}
	defer done()
	return r.binary(ctx, src.in(f.Name, f.Name, k, data, size))
}

func inflate(ctx context.Context, zipFile io.ReaderAt, f *zip.File) (data io.ReaderAt, size int64, done func(), err error) {
	n := f.UncompressedSize64
	if n > maxMember || f.Method != zip.Store && n > maxRatio*f.CompressedSize64+4096 {
		return nil, 0, nil, fmt.Errorf("zip: %d compressed bytes claim to be %d", f.CompressedSize64, n)
	}
	if f.Method == zip.Store {
		off, err := f.DataOffset()
		if err != nil {
			return nil, 0, nil, err
		}
		return io.NewSectionReader(zipFile, off, int64(f.CompressedSize64)), int64(f.CompressedSize64), func() {}, nil
	}
	rc, err := f.Open()
	if err != nil {
		return nil, 0, nil, err
	}
	defer rc.Close()
	in := &cancelReader{ctx, io.LimitReader(rc, int64(n))}
	if n <= inMemory {
		b, err := io.ReadAll(in)
		if err != nil {
			return nil, 0, nil, err
		}
		return bytes.NewReader(b), int64(len(b)), func() {}, nil
	}
	tmp, err := os.CreateTemp("", "thoxbuild-abicheck-")
	if err != nil {
		return nil, 0, nil, err
	}
	// Without a name it is gone with this process, however that ends. Where
	// an open file cannot be unlinked, closing removes it.
	name := tmp.Name()
	gone := os.Remove(name) == nil
	done = func() {
		tmp.Close()
		if !gone {
			os.Remove(name)
		}
	}
	m, err := io.Copy(tmp, in)
	if err != nil {
		done()
		return nil, 0, nil, fmt.Errorf("unpack: %w", err)
	}
	return tmp, m, done, nil
}

// cancelReader stops with its context.
type cancelReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *cancelReader) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}

// slashed turns the separators of a careless archive into those of path.
func slashed(name string) string { return strings.ReplaceAll(name, `\`, "/") }
