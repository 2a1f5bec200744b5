package toolchain

import (
	"archive/zip"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/flate"
	"golang.org/x/sync/errgroup"
)

// unpacking is one archive on its way into a folder.
type unpacking struct {
	dir string
	// pick renames a member, or returns "" to skip it.
	pick func(name string) string
	// record, when set, has the sha256 of every member that pick takes, in the
	// form of a wheel's RECORD; a member that differs is an error.
	record map[string]string

	mu   sync.Mutex
	dirs map[string]bool // made already
}

// unzip writes the files of an archive that pick renames, several at a time.
// Every path is confined to the folder, and no link is made.
func (u *unpacking) unzip(ctx context.Context, z *zip.Reader) (files int, err error) {
	z.RegisterDecompressor(zip.Deflate, inflate)
	type member struct {
		*zip.File
		to string
	}
	var members []member
	for _, f := range z.File {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		name := u.pick(f.Name)
		if name == "" {
			continue
		}
		if !filepath.IsLocal(filepath.FromSlash(name)) || !filepath.IsLocal(filepath.FromSlash(f.Name)) {
			return 0, fmt.Errorf("archive member %q leaves its folder", f.Name)
		}
		if !f.Mode().IsRegular() {
			return 0, fmt.Errorf("archive member %q is no plain file", f.Name)
		}
		members = append(members, member{f, filepath.Join(u.dir, filepath.FromSlash(name))})
	}
	// A member is inflated by one processor, so the largest must not be last;
	// the others stay in the archive's order, folder by folder.
	const large = 8 << 20
	slices.SortStableFunc(members, func(a, b member) int {
		return cmp.Compare(max(b.UncompressedSize64, large), max(a.UncompressedSize64, large))
	})
	u.dirs = map[string]bool{}
	g, ctx := errgroup.WithContext(ctx)
	next := make(chan member)
	g.Go(func() error {
		defer close(next)
		for _, m := range members {
			select {
			case next <- m:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for range min(8, runtime.GOMAXPROCS(0)) {
		g.Go(func() error {
			buf := make([]byte, 256<<10)
			for m := range next {
				if err := u.file(m.File, m.to, buf); err != nil {
					return fmt.Errorf("archive member %q: %w", m.Name, err)
				}
			}
			return nil
		})
	}
	return len(members), g.Wait()
}

func (u *unpacking) file(f *zip.File, to string, buf []byte) error {
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	if err := u.makeDir(filepath.Dir(to)); err != nil {
		return err
	}
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644|f.Mode().Perm()&0o111)
	if err != nil {
		return err
	}
	defer w.Close()
	h := sha256.New()
	out := io.Writer(struct{ io.Writer }{w}) // hides ReadFrom, which would not use buf
	if u.record != nil {
		out = io.MultiWriter(w, h)
	}
	// The reader checks size and CRC at the end of the member.
	if _, err := io.CopyBuffer(out, r, buf); err != nil {
		return err
	}
	if u.record != nil && u.record[f.Name] != base64.RawURLEncoding.EncodeToString(h.Sum(nil)) {
		return permanent{fmt.Errorf("%s does not match the wheel's RECORD", f.Name)}
	}
	return w.Close()
}

// makeDir is MkdirAll that remembers: most members share a folder with others.
func (u *unpacking) makeDir(dir string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.dirs[dir] {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	u.dirs[dir] = true
	return nil
}

// inflaters keeps the windows and tables of finished members for the next.
var inflaters sync.Pool

// inflate is a zip.Decompressor, faster than the one of archive/zip.
func inflate(r io.Reader) io.ReadCloser {
	f, ok := inflaters.Get().(io.ReadCloser)
	if !ok {
		return &inflater{flate.NewReader(r)}
	}
	if err := f.(flate.Resetter).Reset(r, nil); err != nil {
		return &inflater{flate.NewReader(r)}
	}
	return &inflater{f}
}

type inflater struct{ io.ReadCloser }

func (f *inflater) Close() error {
	if f.ReadCloser == nil {
		return nil
	}
	err := f.ReadCloser.Close()
	inflaters.Put(f.ReadCloser)
	f.ReadCloser = nil
	return err
}
