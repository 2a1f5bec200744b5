package toolchain

import (
	"archive/zip"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/thox-ai/thoxbuild/manifests"
)

// TorchMember writes one member of a torch wheel, such as
// "torch/lib/libc10.so", to a file, and returns the release it is from. Only
// that member is fetched. It is checked against the wheel's RECORD.
func (s *Store) TorchMember(ctx context.Context, torch manifests.Version, platform manifests.Platform, member string, to *os.File) (release string, err error) {
	p, err := s.torchPackage(ctx, torch, platform)
	if err != nil {
		return "", err
	}
	d, err := s.locate(ctx, p)
	if err != nil {
		return "", err
	}
	op := "read " + member + " of " + p.File
	r, err := openRange(ctx, s.index.client, d, wheelTail, nil)
	if err != nil {
		return "", s.writeError(op, err)
	}
	z, err := zip.NewReader(r, r.size)
	if err != nil {
		return "", s.writeError(op, err)
	}
	record, _, err := readRecord(z)
	if err != nil {
		return "", s.writeError(op, err)
	}
	for _, f := range z.File {
		if f.Name == member {
			return p.Version, s.orNil(op, s.streamMember(ctx, d, f, record[member], to))
		}
	}
	return "", s.writeError(op, errors.New("the wheel has no such member"))
}

// orNil is writeError for an error that may be nil.
func (s *Store) orNil(op string, err error) error {
	if err == nil {
		return nil
	}
	return s.writeError(op, err)
}

// streamMember fetches the bytes of one member in a single request and inflates
// them as they come; a transfer that was cut is made again from its start.
func (s *Store) streamMember(ctx context.Context, d Dist, f *zip.File, want string, to *os.File) error {
	start, err := f.DataOffset()
	if err != nil {
		return err
	}
	end := start + int64(f.CompressedSize64) - 1
	return retry(ctx, func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL, nil)
		if err != nil {
			return permanent{err}
		}
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", start, end))
		res, err := s.index.client.Do(req)
		if err != nil {
			return cleanURLError(err)
		}
		defer res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return permanent{errNoRanges}
		}
		if err := checkStatus(res, http.StatusPartialContent); err != nil {
			return err
		}
		var body io.Reader = &counting{r: io.LimitReader(res.Body, end-start+1), report: s.opts.Progress, label: f.Name, total: end - start + 1}
		switch f.Method {
		case zip.Store:
		case zip.Deflate:
			body = flate.NewReader(body)
		default:
			return permanent{fmt.Errorf("compression method %d", f.Method)}
		}
		if err := to.Truncate(0); err != nil {
			return permanent{err}
		}
		if _, err := to.Seek(0, io.SeekStart); err != nil {
			return permanent{err}
		}
		h := sha256.New()
		if _, err := io.Copy(io.MultiWriter(to, h), io.LimitReader(body, int64(f.UncompressedSize64)+1)); err != nil {
			return err
		}
		if got := base64.RawURLEncoding.EncodeToString(h.Sum(nil)); got != want {
			return fmt.Errorf("its sha256 is %s, RECORD says %q", got, want)
		}
		return nil
	})
}
