package store

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// archiveFormat is the number of the archive's layout: first archive.json, then
// for each repository its directory's files under N/, N counting from 0.
const archiveFormat = 1

type archiveIndex struct {
	Format int    `json:"format"`
	Repos  []Info `json:"repos"`
}

// archived are the files of a repository that an archive holds. Chunks stay
// behind, as they belong to this store's identity.
var archived = regexp.MustCompile(`^(refs/(heads|tags|pr)/.+|objects/pack/pack-[0-9a-f]{40}\.(pack|idx)|lfs/objects/[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{64}|discussions/[0-9]+\.json)$`)

// Export writes repositories as a zstd-compressed tar. The order and the
// headers depend on the content alone. Want selects; nil takes all.
func (s *Store) Export(ctx context.Context, w io.Writer, want func(Info) bool) error {
	var repos []Info
	for _, info := range s.List() {
		if want == nil || want(info) {
			repos = append(repos, info)
		}
	}
	if len(repos) == 0 {
		return fmt.Errorf("export: %w", ErrRepoNotFound)
	}
	zw, err := zstd.NewWriter(w)
	if err != nil {
		return err
	}
	defer zw.Close()
	tw := tar.NewWriter(zw)
	head, err := json.MarshalIndent(archiveIndex{archiveFormat, repos}, "", "  ")
	if err != nil {
		return err
	}
	if err := tarFile(tw, "archive.json", int64(len(head)), strings.NewReader(string(head))); err != nil {
		return err
	}
	for i, info := range repos {
		r, err := s.RepoByUID(info.UID)
		if err != nil {
			return err
		}
		if err := r.export(ctx, tw, fmt.Sprint(i)); err != nil {
			return fmt.Errorf("export %s %s: %w", info.Type, info.ID, err)
		}
	}
	if err := tw.Close(); err != nil {
		return err
	}
	return zw.Close()
}

func tarFile(tw *tar.Writer, name string, size int64, r io.Reader) error {
	if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err := io.Copy(tw, r)
	return err
}

// export holds commits back, so that refs and objects belong together.
func (r *Repo) export(ctx context.Context, tw *tar.Writer, prefix string) error {
	r.keepMu.Lock()
	defer r.keepMu.Unlock()
	var names []string
	err := filepath.WalkDir(r.dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(r.dir, p)
		if rel = filepath.ToSlash(rel); err == nil && archived.MatchString(rel) {
			names = append(names, rel)
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		f, err := os.Open(filepath.Join(r.dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		fi, err := f.Stat()
		if err == nil {
			err = tarFile(tw, prefix+"/"+name, fi.Size(), f)
		}
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// Import adds the repositories of an archive. All of them are checked before
// any is visible, and none of their names may be taken.
func (s *Store) Import(ctx context.Context, in io.Reader) ([]Info, error) {
	zr, err := zstd.NewReader(in, zstd.WithDecoderMaxMemory(256<<20))
	if err != nil {
		return nil, err
	}
	defer zr.Close()
	tr := tar.NewReader(zr)
	h, err := tr.Next()
	if err != nil || h.Name != "archive.json" || h.Size > 64<<20 {
		return nil, fmt.Errorf("import: %w archive: it does not begin with archive.json", ErrInvalid)
	}
	var idx archiveIndex
	if err := json.NewDecoder(tr).Decode(&idx); err != nil {
		return nil, fmt.Errorf("import: %w archive.json: %w", ErrInvalid, err)
	}
	if idx.Format != archiveFormat || len(idx.Repos) == 0 {
		return nil, fmt.Errorf("import: %w archive: format %d, want %d", ErrInvalid, idx.Format, archiveFormat)
	}
	for i := range idx.Repos {
		info := &idx.Repos[i]
		if err := errors.Join(CheckRepoID(info.ID), checkType(info.Type)); err != nil {
			return nil, fmt.Errorf("import: %w", err)
		}
		if _, err := s.Repo(info.Type, info.ID); err == nil {
			return nil, fmt.Errorf("import %s %s: %w", info.Type, info.ID, ErrExists)
		}
		info.UID, info.CAS = randomHex(8), randomHex(8)
	}
	drop := func() {
		for _, info := range idx.Repos {
			os.RemoveAll(s.repoDir(info.UID))
		}
	}
	if err := s.unpack(ctx, tr, idx.Repos); err != nil {
		drop()
		return nil, fmt.Errorf("import: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.index.clone()
	for _, info := range idx.Repos {
		if next.find(info.Type, info.ID) >= 0 {
			drop()
			return nil, fmt.Errorf("import %s %s: %w", info.Type, info.ID, ErrExists)
		}
		next.Repos = append(next.Repos, info)
	}
	if err := s.setIndex(next); err != nil {
		drop()
		return nil, err
	}
	return idx.Repos, nil
}

func checkType(t Type) error {
	if !slices.Contains(Types, t) {
		return fmt.Errorf("%w repository type %q", ErrInvalid, t)
	}
	return nil
}

func (s *Store) unpack(ctx context.Context, tr *tar.Reader, repos []Info) error {
	for _, info := range repos {
		if err := s.initRepo(info.UID); err != nil {
			return err
		}
	}
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%w archive: %w", ErrInvalid, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		num, name, _ := strings.Cut(h.Name, "/")
		i := -1
		for n := range repos {
			if fmt.Sprint(n) == num {
				i = n
			}
		}
		if i < 0 || h.Typeflag != tar.TypeReg || !archived.MatchString(name) || path.Clean(name) != name {
			return fmt.Errorf("%w archive: unexpected member %q", ErrInvalid, clip(h.Name))
		}
		if strings.HasPrefix(name, "refs/") {
			if err := checkRef(name); err != nil {
				return err
			}
		}
		t, err := s.disk.temp()
		if err != nil {
			return err
		}
		if _, err = io.Copy(t, tr); err == nil {
			err = t.commit(filepath.Join(s.repoDir(repos[i].UID), filepath.FromSlash(name)))
		}
		t.discard()
		if err != nil {
			return err
		}
	}
	var rep FsckReport
	for _, info := range repos {
		r, err := s.openRepo(info.UID)
		if err != nil {
			return err
		}
		var faults []string
		if err := r.fsck(ctx, &rep, func(f string, a ...any) { faults = append(faults, fmt.Sprintf(f, a...)) }); err != nil {
			return err
		}
		if len(faults) > 0 {
			return fmt.Errorf("%s %s: %w: %s", info.Type, info.ID, ErrCorrupt, strings.Join(faults, "; "))
		}
	}
	return nil
}
