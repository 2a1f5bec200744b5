package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

func (r *Repo) partDir(sha string) string { return filepath.Join(r.dir, "lfs", "parts", sha) }

// PutPart keeps one part of a large LFS object until JoinParts. A part that is
// sent again replaces the one before.
func (r *Repo) PutPart(t *Temp, sha string, n int) error {
	if err := CheckSHA256(sha); err != nil {
		return err
	}
	if n < 1 || n > 10_000 {
		return fmt.Errorf("%w part number %d: want 1 to 10000", ErrInvalid, n)
	}
	return t.t.commit(filepath.Join(r.partDir(sha), strconv.Itoa(n)))
}

// JoinParts makes an LFS object of its parts; sums are their SHA-256 digests
// as the sender has them. The whole must have the digest sha. Joining twice is
// harmless.
func (r *Repo) JoinParts(ctx context.Context, sha string, size int64, sums []string) error {
	if have, err := r.LFSSize(sha); err == nil && have == size {
		return nil
	}
	t, err := r.s.NewTemp()
	if err != nil {
		return err
	}
	defer t.Close()
	for i, sum := range sums {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.joinPart(t, sha, i+1, sum); err != nil {
			return fmt.Errorf("part %d of %s: %w", i+1, sha, err)
		}
	}
	if t.Size() != size {
		return fmt.Errorf("%w upload: the parts of %s have %d bytes together, not %d", ErrInvalid, sha, t.Size(), size)
	}
	if _, err := r.PutLFS(t, sha); err != nil {
		return err
	}
	os.RemoveAll(r.partDir(sha)) // GC takes what stays
	return nil
}

func (r *Repo) joinPart(t *Temp, sha string, n int, sum string) error {
	f, err := os.Open(filepath.Join(r.partDir(sha), strconv.Itoa(n)))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("never received: %w", ErrNoObject)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	h := newHash()
	if _, err := io.Copy(io.MultiWriter(t, h), f); err != nil {
		return err
	}
	if got := fmt.Sprintf("%x", h.Sum(nil)); got != sum {
		return fmt.Errorf("%w: its ETag is %q, not %q", ErrInvalid, got, clip(sum))
	}
	return nil
}
