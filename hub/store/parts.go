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

// partPath holds the part's own digest, so that a part need not be hashed
// again to see that it is the one that the sender means.
func (r *Repo) partPath(sha string, n int, sum string) string {
	return filepath.Join(r.partDir(sha), strconv.Itoa(n)+"-"+sum)
}

// PutPart keeps one part of a large LFS object until JoinParts. It is not
// forced to the disk, which most parts would leave again before they got
// there: JoinParts checks the whole.
func (r *Repo) PutPart(t *Temp, sha string, n int) error {
	if err := CheckSHA256(sha); err != nil {
		return err
	}
	if n < 1 || n > 10_000 {
		return fmt.Errorf("%w part number %d: want 1 to 10000", ErrInvalid, n)
	}
	if t.t.done {
		return errors.New("temporary file used twice")
	}
	return t.t.place(r.partPath(sha, n, t.SHA256()))
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
		from := t.Size()
		if err := r.joinPart(t, sha, i+1, sum); err != nil {
			return fmt.Errorf("part %d of %s: %w", i+1, sha, err)
		}
		startWriteback(t.t.f, from, t.Size()-from)
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
	if err := CheckSHA256(sum); err != nil {
		return err
	}
	f, err := os.Open(r.partPath(sha, n, sum))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("never received with ETag %q: %w", sum, ErrNoObject)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyBuffer(struct{ io.Writer }{t}, struct{ io.Reader }{f}, make([]byte, 256<<10))
	return err
}
