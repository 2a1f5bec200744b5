package toolchain

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// wheelHeaders reads headers out of a wheel without fetching the wheel: the
// members lie next to each other in the archive. Each member is checked against
// the sha256 in the wheel's RECORD, and RECORD's own digest is pinned in the
// lock, because the whole wheel is never hashed.
//
// tail is how much of the wheel's end is read first; it should hold most of the
// archive's directory. place maps a member to its place in the entry, "" to
// skip it.
func (s *Store) wheelHeaders(ctx context.Context, p Package, name string, tail int64, place func(member string) string) (string, error) {
	entry, err := s.entry(ctx, name, func(dir string) error {
		d, err := s.locate(ctx, p)
		if err != nil {
			return err
		}
		r, err := openRange(ctx, s.index.client, d, tail, s.opts.Progress)
		if err != nil {
			return err
		}
		z, err := zip.NewReader(r, r.size)
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		record, digest, err := readRecord(z)
		if err != nil {
			return err
		}
		if p.Record != "" && p.Record != digest {
			return permanent{fmt.Errorf("the wheel's RECORD has sha256 %s, toolchain.lock has %s", digest, p.Record)}
		}
		if err := prefetchHeaders(r, z, place); err != nil {
			return err
		}
		u := &unpacking{dir: dir, pick: place, record: record}
		n, err := u.unzip(ctx, z)
		if err != nil {
			return err
		}
		if n == 0 {
			return errors.New("the wheel holds no headers")
		}
		if err := os.WriteFile(filepath.Join(dir, recordFile), []byte(digest), 0o644); err != nil {
			return err
		}
		s.logf("%s %s: %d headers in %d requests, %.1f MB", p.Project, p.Version, n, r.Requests, float64(r.Bytes)/1e6)
		return nil
	})
	if err != nil {
		return "", err
	}
	// Whoever made the entry, the lock learns what it was checked against.
	b, err := os.ReadFile(filepath.Join(s.Real(entry), recordFile))
	if err != nil {
		return "", hinted("read "+entry, err, "remove that folder from the store; it will be fetched again")
	}
	if p.Record != "" && p.Record != string(b) {
		return "", hinted("use "+p.Project+" "+p.Version, fmt.Errorf("the store's headers come from a wheel whose RECORD has sha256 %s, toolchain.lock has %s", b, p.Record),
			"find out which of the two was changed")
	}
	p.Record = string(b)
	s.opts.Lock.put(p)
	return entry, nil
}

// recordFile holds, in a headers entry, the sha256 of the wheel's RECORD.
const recordFile = "record.sha256"

// prefetchHeaders fetches each run of neighbouring headers in one request.
func prefetchHeaders(r *rangeReader, z *zip.Reader, place func(string) string) error {
	const maxRun = 256 << 20
	for i := 0; i < len(z.File); {
		if place(z.File[i].Name) == "" {
			i++
			continue
		}
		j := i
		for j+1 < len(z.File) && place(z.File[j+1].Name) != "" {
			j++
		}
		if j-i >= 8 {
			first, err := z.File[i].DataOffset()
			if err != nil {
				return err
			}
			last, err := z.File[j].DataOffset()
			if err != nil {
				return err
			}
			end := last + int64(z.File[j].CompressedSize64)
			if end <= first || end-first > maxRun {
				return errors.New("the archive's members are not in the order of its directory")
			}
			// A local header is 30 bytes and the name; it precedes the data.
			if err := r.Prefetch(first-30-int64(len(z.File[i].Name))-1024, end); err != nil {
				return err
			}
		}
		i = j + 1
	}
	return nil
}

// readRecord reads NAME.dist-info/RECORD: path, "sha256=<urlsafe base64>", size.
func readRecord(z *zip.Reader) (hashes map[string]string, digest string, err error) {
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, ".dist-info/RECORD") || strings.Count(f.Name, "/") != 1 {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return nil, "", err
		}
		defer r.Close()
		b, err := io.ReadAll(io.LimitReader(r, 64<<20))
		if err != nil {
			return nil, "", err
		}
		sum := sha256.Sum256(b)
		rows, err := csv.NewReader(strings.NewReader(string(b))).ReadAll()
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", f.Name, err)
		}
		hashes = map[string]string{}
		for _, row := range rows {
			if len(row) == 3 {
				if h, ok := strings.CutPrefix(row[1], "sha256="); ok {
					hashes[row[0]] = h
				}
			}
		}
		return hashes, hex.EncodeToString(sum[:]), nil
	}
	return nil, "", errors.New("the wheel has no RECORD")
}
