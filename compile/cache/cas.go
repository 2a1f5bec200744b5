package cache

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// Has reports whether a blob of that digest and size is there. It looks at
// the size only; Open and Path check the bytes.
func (d *Disk) Has(dg action.Digest) bool {
	p := d.path("cas", dg)
	fi, err := os.Stat(p)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() != dg.Size {
		return false
	}
	d.touch(p, fi)
	return true
}

// Open reads a blob. Its bytes were checked against the digest in this
// process; a blob that fails the check is removed and reported as missing.
func (d *Disk) Open(dg action.Digest) (io.ReadCloser, error) {
	p, ok := d.Path(dg)
	if !ok {
		return nil, fmt.Errorf("blob %s: %w", dg.Short(), ErrMiss)
	}
	return os.Open(p)
}

// Path is the file that holds a blob, checked as Open does. The file is
// read-only and stays what it is; link or read it, never write it.
func (d *Disk) Path(dg action.Digest) (string, bool) {
	p := d.path("cas", dg)
	if !d.Has(dg) {
		return "", false
	}
	d.mu.Lock()
	done := d.verified[dg]
	d.mu.Unlock()
	if done {
		return p, true
	}
	got, err := action.DigestFile(p)
	if err != nil || got != dg {
		os.Remove(p) // damaged: make room for a good one
		return "", false
	}
	d.markVerified(dg)
	return p, true
}

func (d *Disk) markVerified(dg action.Digest) {
	d.mu.Lock()
	d.verified[dg] = true
	d.mu.Unlock()
}

// ReadBlob returns a whole blob.
func (d *Disk) ReadBlob(dg action.Digest) ([]byte, error) {
	r, err := d.Open(dg)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// PutBlob stores b.
func (d *Disk) PutBlob(b []byte) (action.Digest, error) {
	dg := action.DigestOf(b)
	if d.Has(dg) {
		return dg, nil
	}
	err := d.commit(d.path("cas", dg), func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
	if err != nil {
		return action.Digest{}, fmt.Errorf("store a blob of %d bytes: %w", len(b), err)
	}
	return dg, nil
}

// Put implements action.Sink: it stores what r holds when that is want.
func (d *Disk) Put(ctx context.Context, want action.Digest, r io.Reader) error {
	err := d.commit(d.path("cas", want), func(w io.Writer) error {
		got, err := action.Copy(w, io.LimitReader(ctxReader{ctx, r}, want.Size+1))
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("received %s, expected %s", got, want)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("store blob %s: %w", want.Short(), err)
	}
	return nil
}

// PutFile implements action.Sink. The file is copied while it is hashed, so
// that nobody who still holds it open can change the blob.
func (d *Disk) PutFile(ctx context.Context, path string) (action.Digest, error) {
	f, err := os.Open(path)
	if err != nil {
		return action.Digest{}, err
	}
	defer f.Close()
	tmp, err := os.CreateTemp(d.scratch.dir, "new-*")
	if err != nil {
		return action.Digest{}, err
	}
	defer os.Remove(tmp.Name())
	dg, err := action.Copy(d.writer(tmp), ctxReader{ctx, f})
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return action.Digest{}, fmt.Errorf("store %s: %w", path, err)
	}
	if err := d.adopt(tmp.Name(), d.path("cas", dg)); err != nil {
		return action.Digest{}, fmt.Errorf("store %s: %w", path, err)
	}
	return dg, nil
}

// ctxReader ends a copy when its context ends.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
