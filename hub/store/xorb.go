package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

func (r *Repo) xorbPath(hash string) string { return filepath.Join(r.dir, "xorbs", hash) }

// PutXorb keeps a serialised xorb under its hash, 64 hex digits. It reports
// whether it was new. The repository keeps it as long as Info().CAS stays, as
// clients remember what they have sent there.
func (r *Repo) PutXorb(t *Temp, hash string) (bool, error) {
	if err := CheckSHA256(hash); err != nil {
		return false, err
	}
	if fi, err := os.Stat(r.xorbPath(hash)); err == nil && fi.Size() == t.size {
		return false, nil
	}
	return true, t.t.commit(r.xorbPath(hash))
}

// OpenXorb opens a xorb for reading.
func (r *Repo) OpenXorb(hash string) (*os.File, int64, error) {
	if err := CheckSHA256(hash); err != nil {
		return nil, 0, err
	}
	f, err := os.Open(r.xorbPath(hash))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("xorb %s: %w", hash, ErrNoObject)
	}
	if err != nil {
		return nil, 0, err
	}
	fi, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, fi.Size(), nil
}
