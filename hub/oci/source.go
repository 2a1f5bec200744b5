package oci

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/source"
)

// Source reads a kernel from a registry. A variant's layer is downloaded when
// the first of its files is opened, and unpacked to a temporary folder that
// Close removes.
type Source struct {
	target   Target
	revision string
	remote   []remote.Option
	tmp      string

	mu       sync.Mutex
	variants map[string]*variant
}

var (
	_ source.Source = (*Source)(nil)
	_ source.Mover  = (*Source)(nil)
)

type variant struct {
	once  sync.Once
	err   error
	image v1.Image
	conf  config
	dir   string
}

// Open reads the index and the configs behind a tag or digest. With names,
// only those variants are looked at.
func Open(ctx context.Context, t Target, a Access, names ...string) (*Source, error) {
	ref, err := t.ref()
	if err != nil {
		return nil, err
	}
	a = a.withDefaults()
	s := &Source{target: t, remote: a.options(ctx, a.steady(new(atomic.Int64))), variants: map[string]*variant{}}
	idx, digest, err := readIndex(ref, s.remote)
	if err != nil {
		return nil, err
	}
	if digest == "" {
		return nil, fmt.Errorf("%s: %w", t, fs.ErrNotExist)
	}
	s.revision = digest
	for _, d := range idx.Manifests {
		name := d.Annotations[AnnotationVariant]
		if name == "" || !wanted(name, names) {
			continue
		}
		v, err := s.open(d)
		if err != nil {
			return nil, fmt.Errorf("%s: variant %s: %w", t, name, err)
		}
		if v.conf.Variant != name {
			return nil, fmt.Errorf("%s: the index calls a variant %s, its config %s", t, name, v.conf.Variant)
		}
		s.variants[name] = v
	}
	if len(s.variants) == 0 {
		return nil, fmt.Errorf("%s holds no variant of a kernel", t)
	}
	if s.tmp, err = os.MkdirTemp("", "thoxbuild-oci-"); err != nil {
		return nil, err
	}
	return s, nil
}

func wanted(name string, globs []string) bool {
	for _, g := range globs {
		if ok, err := filepath.Match(g, name); ok && err == nil {
			return true
		}
	}
	return len(globs) == 0
}

// open reads a variant's manifest and config; the library holds both to their
// digests.
func (s *Source) open(d v1.Descriptor) (*variant, error) {
	img, err := remote.Image(s.target.Repo.Digest(d.Digest.String()), s.remote...)
	if err != nil {
		return nil, err
	}
	m, err := img.Manifest()
	if err != nil {
		return nil, err
	}
	if m.Config.MediaType != ConfigMediaType || len(m.Layers) != 1 || m.Layers[0].MediaType != types.OCILayerZStd {
		return nil, fmt.Errorf("manifest %s is not a kernel variant's (config %s, %d layers)", d.Digest, m.Config.MediaType, len(m.Layers))
	}
	if m.Config.Size > maxConfig {
		return nil, fmt.Errorf("config of %d bytes", m.Config.Size)
	}
	raw, err := img.RawConfigFile()
	if err != nil {
		return nil, err
	}
	v := &variant{image: img}
	if err := json.Unmarshal(raw, &v.conf); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return v, v.conf.check()
}

// Close removes what was unpacked.
func (s *Source) Close() error { return os.RemoveAll(s.tmp) }

// String implements source.Source.
func (s *Source) String() string { return s.target.LockName() + "@" + s.revision }

// Revision implements source.Source.
func (s *Source) Revision() string { return s.revision }

// Files implements source.Source.
func (s *Source) Files(context.Context) ([]client.Entry, error) {
	var out []client.Entry
	for name, v := range s.variants {
		for _, f := range v.conf.Files {
			out = append(out, client.Entry{Path: "build/" + name + "/" + f.Path, Size: f.Size, SHA256: f.SHA256})
		}
	}
	return out, nil
}

// Open implements source.Source.
func (s *Source) Open(ctx context.Context, e client.Entry) (io.ReadCloser, error) {
	name := variantOf(e)
	s.mu.Lock()
	v := s.variants[name]
	s.mu.Unlock()
	if v == nil {
		return nil, fmt.Errorf("%s: %w", e.Path, fs.ErrNotExist)
	}
	v.once.Do(func() {
		v.dir = filepath.Join(s.tmp, name)
		v.err = v.unpack(ctx)
	})
	if v.err != nil {
		return nil, fmt.Errorf("unpack %s: %w", name, v.err)
	}
	f, err := os.Open(filepath.Join(v.dir, filepath.FromSlash(source.Within(e))))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: %w: the layer lacks it", e.Path, source.ErrCorrupt)
	}
	return f, err
}

func variantOf(e client.Entry) string {
	for name := range source.Variants([]client.Entry{e}) {
		return name
	}
	return ""
}

// Head implements source.Mover: where the tag is now.
func (s *Source) Head(ctx context.Context, tag string) (source.Source, string, error) {
	_, digest, err := readIndex(s.target.Repo.Tag(tag), s.remote)
	if err != nil || digest == "" || digest == s.revision {
		return nil, digest, err
	}
	head := &Source{target: s.target, revision: digest, remote: s.remote, variants: map[string]*variant{}}
	idx, _, err := readIndex(s.target.Repo.Digest(digest), s.remote)
	if err != nil {
		return nil, digest, err
	}
	for _, d := range idx.Manifests {
		if name := d.Annotations[AnnotationVariant]; name != "" {
			v, err := s.open(d)
			if err != nil {
				return nil, digest, err
			}
			head.variants[name] = v
		}
	}
	return head, digest, nil
}

// unpack streams the layer into a folder. Only files that the config lists are
// written, none larger than listed; whatever else the archive holds is an
// error.
func (v *variant) unpack(ctx context.Context) error {
	layers, err := v.image.Layers()
	if err != nil {
		return err
	}
	rc, err := layers[0].Compressed() // verified by the library while it streams
	if err != nil {
		return err
	}
	defer rc.Close()
	if err := os.MkdirAll(v.dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(v.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	listed := map[string]int64{}
	for _, f := range v.conf.Files {
		listed[f.Path] = f.Size
	}
	zr, err := zstd.NewReader(source.Cancelable(ctx, rc), zstd.WithDecoderMaxWindow(64<<20), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer zr.Close()
	tr := tar.NewReader(zr)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		size, ok := listed[h.Name]
		if h.Typeflag != tar.TypeReg || !ok || size != h.Size {
			return fmt.Errorf("%w: the layer holds %q, which the config does not list so", source.ErrCorrupt, h.Name)
		}
		delete(listed, h.Name)
		if err := writeFile(root, h.Name, tr); err != nil {
			return err
		}
	}
	// Reading to the end is what verifies the digest.
	if _, err := io.Copy(io.Discard, zr); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, rc)
	return err
}

func writeFile(root *os.Root, name string, r io.Reader) error {
	if dir := filepath.Dir(filepath.FromSlash(name)); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// Referrers reads the attachments of a variant.
func (s *Source) Referrers(name, artifactType string) ([]Attachment, error) {
	v := s.variants[name]
	if v == nil {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	d, err := v.image.Digest()
	if err != nil {
		return nil, err
	}
	idx, err := remote.Referrers(s.target.Repo.Digest(d.String()), s.remote...)
	if err != nil {
		return nil, err
	}
	m, err := idx.IndexManifest()
	if err != nil {
		return nil, err
	}
	var out []Attachment
	for _, desc := range m.Manifests {
		img, err := remote.Image(s.target.Repo.Digest(desc.Digest.String()), s.remote...)
		if err != nil {
			return nil, err
		}
		// The list's own artifactType can't be relied on: some registries put
		// the config's media type there.
		raw, err := img.RawManifest()
		if err != nil {
			return nil, err
		}
		var own wireManifest
		if err := json.Unmarshal(raw, &own); err != nil {
			return nil, fmt.Errorf("referrer %s: %w", desc.Digest, err)
		}
		if artifactType != "" && own.ArtifactType != artifactType {
			continue
		}
		layers, err := img.Layers()
		if err != nil || len(layers) != 1 {
			return nil, errors.Join(err, fmt.Errorf("referrer %s has %d layers", desc.Digest, len(layers)))
		}
		rc, err := layers[0].Compressed()
		if err != nil {
			return nil, err
		}
		data, err := readAllLimited(rc, maxConfig)
		_ = rc.Close()
		if err != nil {
			return nil, err
		}
		mt, err := layers[0].MediaType()
		if err != nil {
			return nil, err
		}
		out = append(out, Attachment{name, own.ArtifactType, string(mt), data})
	}
	return out, nil
}
