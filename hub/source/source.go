// Package source reads published kernels from wherever they are: a revision
// on a Hub, a folder, or an installed cache. Pulling and verifying work on any
// of them alike.
package source

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/manifests"
	"golang.org/x/sync/errgroup"
)

// Source is a tree of files laid out as in a kernel repository, with variants
// under build/.
type Source interface {
	// String names the source for messages.
	String() string
	// Revision is the commit or image digest, or empty for a plain folder.
	Revision() string
	// Files lists every file by its repository path. OID and SHA256 are set
	// where the source knows them; they are claims until the bytes are hashed.
	Files(ctx context.Context) ([]client.Entry, error)
	// Open streams a file that Files listed.
	Open(ctx context.Context, e client.Entry) (io.ReadCloser, error)
}

// Mover is a source whose revision was reached through a name that may move.
type Mover interface {
	// Head returns where a branch or tag points now: the revision, empty if
	// the name is gone, and a source for it, nil if that is this revision.
	Head(ctx context.Context, name string) (Source, string, error)
}

// Hub is a revision of a repository.
type Hub struct {
	Client *client.Client
	Repo   client.Repo
	// Commit is a full commit id.
	Commit string
}

var _ Source = (*Hub)(nil)

var _ Mover = (*Hub)(nil)

// Head implements Mover.
func (h *Hub) Head(ctx context.Context, branch string) (Source, string, error) {
	refs, err := h.Client.Refs(ctx, h.Repo, false)
	if err != nil {
		return nil, "", err
	}
	head, ok := refs.Branch(branch)
	if !ok || head == h.Commit {
		return nil, head, nil
	}
	return &Hub{Client: h.Client, Repo: h.Repo, Commit: head}, head, nil
}

// String implements Source.
func (h *Hub) String() string { return fmt.Sprintf("%s@%s", h.Repo, h.Commit) }

// Revision implements Source.
func (h *Hub) Revision() string { return h.Commit }

// Files implements Source.
func (h *Hub) Files(ctx context.Context) ([]client.Entry, error) {
	all, err := h.Client.Tree(ctx, h.Repo, h.Commit, "", true)
	return slices.DeleteFunc(all, func(e client.Entry) bool { return e.Dir }), err
}

// Open implements Source.
func (h *Hub) Open(ctx context.Context, e client.Entry) (io.ReadCloser, error) {
	return h.Client.Open(ctx, h.Repo, h.Commit, e.Path, e.Size)
}

// Folder is a directory that holds build/ with the variants, or a snapshot of
// a Hub cache.
type Folder struct {
	Dir string
	// Commit is the revision that the folder is said to hold, or empty.
	Commit string
	// Blobs is the only folder outside Dir that links may lead to.
	Blobs string
}

var _ Source = (*Folder)(nil)

// OpenFolder accepts a kernel's folder, a build folder (its parent must then
// hold nothing else that counts) or a variant's parent by any name.
func OpenFolder(dir string) (*Folder, error) {
	st, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return nil, fmt.Errorf("%s: expected a folder", dir)
	}
	return &Folder{Dir: dir}, nil
}

// OpenCache finds a repository's revision in a Hub cache. ref is a commit or a
// name below refs/.
func OpenCache(cache string, repo client.Repo, ref string) (*Folder, error) {
	base := filepath.Join(cache, repo.CacheFolder())
	commit := ref
	if !client.IsCommit(ref) {
		if err := client.CheckPath(ref); err != nil {
			return nil, err
		}
		b, err := os.ReadFile(filepath.Join(base, "refs", filepath.FromSlash(ref)))
		if err != nil {
			return nil, fmt.Errorf("%s is not installed in %s: %w", repo, cache, err)
		}
		commit = strings.TrimSpace(string(b))
		if !client.IsCommit(commit) {
			return nil, fmt.Errorf("%s: refs/%s holds %q, which is not a commit id", base, ref, commit)
		}
	}
	dir := filepath.Join(base, "snapshots", commit)
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("%s@%s is not installed in %s: %w", repo, commit, cache, err)
	}
	return &Folder{Dir: dir, Commit: commit, Blobs: filepath.Join(base, "blobs")}, nil
}

// String implements Source.
func (f *Folder) String() string { return f.Dir }

// Revision implements Source.
func (f *Folder) Revision() string { return f.Commit }

// prefix is empty if the folder has a build/ of its own, else the files below
// it are taken for the content of build/.
func (f *Folder) prefix() string {
	if st, err := os.Stat(filepath.Join(f.Dir, "build")); err == nil && st.IsDir() {
		return ""
	}
	return "build/"
}

// Files implements Source. Bytecode, which importing leaves behind, is not
// listed; links count as the files that they lead to.
func (f *Folder) Files(ctx context.Context) ([]client.Entry, error) {
	prefix := f.prefix()
	var out []client.Entry
	root := f.Dir
	if prefix == "" {
		root = filepath.Join(f.Dir, "build")
	}
	allowed, err := f.roots()
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		rel, err := filepath.Rel(f.Dir, p)
		if err != nil {
			return err
		}
		name := prefix + filepath.ToSlash(rel)
		if e.IsDir() {
			// Folders beside the variants whose names begin with a dot hold what
			// a build says about them.
			if e.Name() == "__pycache__" || filepath.Dir(p) == root && strings.HasPrefix(e.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".pyc") {
			return nil
		}
		target, err := filepath.EvalSymlinks(p)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if !slices.ContainsFunc(allowed, func(root string) bool { return strings.HasPrefix(target, root+string(filepath.Separator)) }) {
			return fmt.Errorf("%s is a link that leaves %s", name, f.Dir)
		}
		st, err := os.Stat(target)
		if err != nil || !st.Mode().IsRegular() {
			return err
		}
		if err := client.CheckPath(name); err != nil {
			return err
		}
		out = append(out, client.Entry{Path: name, Size: st.Size()})
		return nil
	})
	return out, err
}

func (f *Folder) roots() ([]string, error) {
	var out []string
	for _, d := range []string{f.Dir, f.Blobs} {
		if d == "" {
			continue
		}
		real, err := filepath.EvalSymlinks(d)
		if errors.Is(err, fs.ErrNotExist) && d == f.Blobs {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, real)
	}
	return out, nil
}

// Open implements Source.
func (f *Folder) Open(_ context.Context, e client.Entry) (io.ReadCloser, error) {
	if err := client.CheckPath(e.Path); err != nil {
		return nil, err
	}
	return os.Open(filepath.Join(f.Dir, filepath.FromSlash(strings.TrimPrefix(e.Path, f.prefix()))))
}

// Variants groups files by variant. The keys are the folders under build/;
// the entries keep their full paths, sorted.
func Variants(files []client.Entry) map[string][]client.Entry {
	out := map[string][]client.Entry{}
	for _, e := range files {
		parts := strings.SplitN(e.Path, "/", 3)
		if len(parts) == 3 && parts[0] == "build" && !e.Dir {
			out[parts[1]] = append(out[parts[1]], e)
		}
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b client.Entry) int { return strings.Compare(a.Path, b.Path) })
	}
	return out
}

// Within is the path of an entry relative to its variant.
func Within(e client.Entry) string {
	parts := strings.SplitN(e.Path, "/", 3)
	return parts[len(parts)-1]
}

// Sums are the digests of one file's bytes, in hex.
type Sums struct{ SHA256, GitOID string }

// ETag is what a Hub's cache would call the file: as the source names it, else
// by the git blob id.
func (s Sums) ETag(e client.Entry) string {
	if e.SHA256 != "" {
		return s.SHA256
	}
	return s.GitOID
}

// Copy streams a file into w (which may be nil) and hashes it on the way. It
// fails when the size or a digest that the source claims is not met.
func Copy(ctx context.Context, s Source, e client.Entry, w io.Writer) (Sums, error) {
	r, err := s.Open(ctx, e)
	if err != nil {
		return Sums{}, err
	}
	defer r.Close()
	sum, git := sha256.New(), sha1.New()
	fmt.Fprintf(git, "blob %d\x00", e.Size)
	dst := io.MultiWriter(sum, git)
	if w != nil {
		dst = io.MultiWriter(sum, git, w)
	}
	n, err := io.CopyBuffer(dst, io.LimitReader(&ctxReader{ctx, r}, e.Size+1), make([]byte, 128<<10))
	if err != nil {
		return Sums{}, fmt.Errorf("%s: %w", e.Path, err)
	}
	got := Sums{hex.EncodeToString(sum.Sum(nil)), hex.EncodeToString(git.Sum(nil))}
	switch {
	case n != e.Size:
		return got, fmt.Errorf("%s: %w: %d bytes or more, expected %d", e.Path, ErrCorrupt, n, e.Size)
	case e.SHA256 != "" && got.SHA256 != e.SHA256:
		return got, fmt.Errorf("%s: %w: SHA-256 %s, the source lists %s", e.Path, ErrCorrupt, got.SHA256, e.SHA256)
	case e.SHA256 == "" && e.OID != "" && len(e.OID) == 40 && got.GitOID != e.OID:
		return got, fmt.Errorf("%s: %w: git blob id %s, the source lists %s", e.Path, ErrCorrupt, got.GitOID, e.OID)
	}
	return got, nil
}

// ErrCorrupt says that a source's bytes are not what the source itself lists.
var ErrCorrupt = errors.New("the bytes are not what was listed")

type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (c *ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

// Hash reads the files of a variant and returns their digests by path within
// it.
func Hash(ctx context.Context, s Source, files []client.Entry) (map[string]Sums, error) {
	sums := make([]Sums, len(files))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for i, e := range files {
		g.Go(func() (err error) {
			sums[i], err = Copy(gctx, s, e, nil)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	out := map[string]Sums{}
	for i, e := range files {
		out[Within(e)] = sums[i]
	}
	return out, nil
}

// Metadata reads a variant's metadata. The bytes are returned as they are.
func Metadata(ctx context.Context, s Source, files []client.Entry) (*manifests.Metadata, []byte, error) {
	for _, e := range files {
		if Within(e) != manifests.MetadataFile {
			continue
		}
		if e.Size > maxMetadata {
			return nil, nil, fmt.Errorf("%s: %d bytes: expected at most %d", e.Path, e.Size, maxMetadata)
		}
		var buf strings.Builder
		if _, err := Copy(ctx, s, e, &buf); err != nil {
			return nil, nil, err
		}
		m, err := manifests.ParseMetadata([]byte(buf.String()))
		if err != nil {
			err = fmt.Errorf("%s: %w", e.Path, err)
		}
		return m, []byte(buf.String()), err
	}
	return nil, nil, fmt.Errorf("no %s: %w", manifests.MetadataFile, fs.ErrNotExist)
}

const maxMetadata = 32 << 20

// Digest is the variant's digest from the digests of its files.
func Digest(sums map[string]Sums) lock.Digest {
	hexes := map[string]string{}
	for name, s := range sums {
		hexes[name] = s.SHA256
	}
	return lock.VariantDigest(hexes)
}
