// Package bundle reads what a build left on disk as something to publish:
// variants with their metadata, every file hashed once, the card and the
// benchmarks.
//
// It trusts nothing in the folder. Links may point around inside a variant,
// never out of it, so that a stray link can't publish a private file.
package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/manifests"
)

// Bundle is a folder of variants.
type Bundle struct {
	// Root is the folder that holds the variants.
	Root     string
	Variants []*Variant
	// Card is CARD.md beside the variants, or nil.
	Card *client.File
	// Benchmarks are benchmarks/benchmark*.py beside the variants or one
	// folder up, with paths as in the repository.
	Benchmarks []client.File
}

// Variant is one folder below the root.
type Variant struct {
	Name string
	// Parsed is the name in its parts.
	Parsed   manifests.VariantName
	Dir      string
	Metadata *manifests.Metadata
	// Files are sorted by path, relative to the variant. Bytecode is left
	// out, as the digest leaves it out.
	Files  []client.File
	Digest lock.Digest
	// sums holds the files' digests in the algorithm of the metadata.
	sums map[string]string
}

// Bytes is the size of the variant's files.
func (v *Variant) Bytes() (n int64) {
	for _, f := range v.Files {
		n += f.Size
	}
	return n
}

// Options choose what is read.
type Options struct {
	// Variants are names or path.Match globs; empty means all.
	Variants []string
	// Parallel is how many files are hashed at once; 4 by default.
	Parallel int
	// Card and Benchmarks are paths that replace the defaults.
	Card, Benchmarks string
	// NoGitIDs leaves out the files' git ids, for places that have no use for
	// them.
	NoGitIDs bool
}

// Problems lists everything that is wrong with a bundle, a line each.
type Problems []string

// Error implements error.
func (p Problems) Error() string {
	if len(p) == 1 {
		return p[0]
	}
	return fmt.Sprintf("%d problems:\n  %s", len(p), strings.Join(p, "\n  "))
}

// Read finds the variants of a kernel and hashes their files. dir is the
// kernel's folder, or the folder of the variants itself. All problems with
// names and metadata come as one Problems.
func Read(ctx context.Context, dir string, opts Options) (*Bundle, error) {
	root, names, err := discover(dir)
	if err != nil {
		return nil, err
	}
	chosen, err := choose(names, opts.Variants)
	if err != nil {
		return nil, err
	}
	b := &Bundle{Root: root}
	var problems Problems
	for _, name := range chosen {
		v, err := readVariant(root, name)
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		b.Variants = append(b.Variants, v)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	if err := b.extras(dir, opts); err != nil {
		return nil, err
	}
	return b, b.hash(ctx, opts.Parallel, !opts.NoGitIDs)
}

// discover finds the folder of the variants. build comes before result: a
// stale result link must not shadow what was built last.
func discover(dir string) (root string, names []string, err error) {
	for _, root := range []string{filepath.Join(dir, "build"), dir, filepath.Join(dir, "result")} {
		entries, err := os.ReadDir(root)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", nil, fmt.Errorf("look for variants: %w", err)
		}
		found := false
		names = nil
		for _, e := range entries {
			st, err := os.Stat(filepath.Join(root, e.Name()))
			if err != nil || !st.IsDir() {
				continue
			}
			_, metaErr := os.Stat(filepath.Join(root, e.Name(), manifests.MetadataFile))
			_, nameErr := manifests.ParseVariantName(e.Name())
			if metaErr == nil || nameErr == nil {
				names = append(names, e.Name())
			}
			found = found || metaErr == nil
		}
		if found {
			return root, names, nil
		}
	}
	return "", nil, fmt.Errorf("%s holds no variant (a folder with a metadata.json, in it or in its build folder); run thoxbuild build first", dir)
}

func choose(names, globs []string) ([]string, error) {
	if len(globs) == 0 {
		return names, nil
	}
	var out []string
	for _, g := range globs {
		hit := false
		for _, n := range names {
			ok, err := filepath.Match(g, n)
			if err != nil {
				return nil, fmt.Errorf("variant pattern %q: %w", g, err)
			}
			if ok {
				hit = true
				if !slices.Contains(out, n) {
					out = append(out, n)
				}
			}
		}
		if !hit {
			return nil, fmt.Errorf("no built variant matches %q; there are: %s", g, strings.Join(names, ", "))
		}
	}
	slices.Sort(out)
	return out, nil
}

func readVariant(root, name string) (*Variant, error) {
	v := &Variant{Name: name, Dir: filepath.Join(root, name)}
	var err error
	if v.Parsed, err = manifests.ParseVariantName(name); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(v.Dir, manifests.MetadataFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("variant %s: no metadata.json; the build did not finish or the file was removed", name)
	}
	if err != nil {
		return nil, fmt.Errorf("variant %s: %w", name, err)
	}
	if v.Metadata, err = manifests.ParseMetadata(data); err != nil {
		return nil, fmt.Errorf("variant %s: metadata.json: %w", name, err)
	}
	if b := v.Parsed.Compute.Backend; b != "" && b != v.Metadata.Backend.Type {
		return nil, fmt.Errorf("variant %s: metadata.json says backend %q", name, v.Metadata.Backend.Type)
	}
	v.Files, err = listVariant(v.Dir)
	if err != nil {
		return nil, fmt.Errorf("variant %s: %w", name, err)
	}
	return v, nil
}

// Stale lists how the variant's files differ from its metadata's digest. A
// metadata without a digest is an error that wraps manifests.ErrNoDigest.
func (v *Variant) Stale() ([]manifests.Difference, error) {
	want := v.Metadata.Digest
	if want == nil {
		return nil, fmt.Errorf("variant %s: %w", v.Name, manifests.ErrNoDigest)
	}
	got := &manifests.Digest{Algorithm: want.Algorithm, Files: map[string]string{}}
	for _, f := range v.Files {
		if !manifests.SkipDigest(f.Path) {
			got.Files[f.Path] = v.sums[f.Path]
		}
	}
	return want.Compare(got), nil
}
