package toolchain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// download fetches a whole file into the store's downloads and returns its
// path. A transfer that was cut goes on where it stopped, in this process or
// the next; the hash covers all bytes from the first. A file that is there
// already is hashed again, so nothing waits for the disk here.
func (s *Store) download(ctx context.Context, d Dist) (string, error) {
	op := "fetch " + d.File
	if len(d.SHA256) != sha256.Size*2 {
		return "", &Error{op, errors.New("the index gives no sha256 for it"), "use an index that gives hashes (PEP 503 or PEP 691)"}
	}
	done := s.downloadPath(d.SHA256, d.File)
	if b, err := hashFile(done); err == nil && b == d.SHA256 {
		return done, nil
	}
	part := done + ".part"
	if err := os.MkdirAll(filepath.Dir(done), 0o755); err != nil {
		return "", s.writeError(op, err)
	}
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return "", s.writeError(op, err)
	}
	defer f.Close()
	err = retry(ctx, func() error { return s.transfer(ctx, f, d) })
	if err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", s.writeError(op, err)
	}
	if err := os.Rename(part, done); err != nil {
		return "", s.writeError(op, err)
	}
	return done, nil
}

// downloadPath is where a file lies that was fetched whole.
func (s *Store) downloadPath(sha, file string) string {
	return filepath.Join(s.dir, "downloads", sha+"-"+filepath.Base(file))
}

// hashFile is a file's sha256 in hex.
func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// transfer appends to f until it holds the whole file, and verifies it.
func (s *Store) transfer(ctx context.Context, f *os.File, d Dist) error {
	h := sha256.New()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return permanent{err}
	}
	have, err := io.Copy(h, f)
	if err != nil {
		return permanent{err}
	}
	if have > 0 && have == d.Size && hex.EncodeToString(h.Sum(nil)) == d.SHA256 {
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL, nil)
	if err != nil {
		return permanent{err}
	}
	if have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	res, err := s.index.client.Do(req)
	if err != nil {
		return cleanURLError(err)
	}
	defer res.Body.Close()
	switch {
	case have > 0 && res.StatusCode == http.StatusPartialContent:
	case have > 0 && (res.StatusCode == http.StatusOK || res.StatusCode == http.StatusRequestedRangeNotSatisfiable):
		// The server starts again, or the part is longer than the file.
		if err := f.Truncate(0); err != nil {
			return permanent{err}
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return permanent{err}
		}
		h.Reset()
		have = 0
		if res.StatusCode != http.StatusOK {
			return errors.New("the server refused to continue the transfer")
		}
	default:
		if err := checkStatus(res, http.StatusOK); err != nil {
			return err
		}
	}
	body := &counting{r: res.Body, report: s.opts.Progress, label: d.File, done: have, total: d.Size}
	limit := int64(8) << 30
	if d.Size > 0 {
		limit = d.Size - have + 1 // one byte more shows a file that is too long
	}
	n, err := io.Copy(io.MultiWriter(f, h), io.LimitReader(body, limit))
	if pe := (*os.PathError)(nil); errors.As(err, &pe) {
		return permanent{err} // a full disk does not empty by trying again
	}
	if err != nil {
		return err
	}
	if res.ContentLength >= 0 && n < res.ContentLength || d.Size > 0 && have+n < d.Size {
		return fmt.Errorf("the transfer ended after %d of %d bytes", have+n, max(d.Size, have+res.ContentLength))
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != d.SHA256 {
		if err := f.Truncate(0); err != nil {
			return permanent{err}
		}
		return permanent{fmt.Errorf("its sha256 is %s, expected %s; the bytes were discarded", got, d.SHA256)}
	}
	return nil
}
