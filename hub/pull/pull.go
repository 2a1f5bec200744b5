// Package pull installs variants from any source, verified while they stream,
// in a layout that the unmodified kernels library loads without a network.
//
// The layout is a Hub cache with three things added or left out on purpose:
// refs/<branch> is written, because the library looks for a version there when
// it is offline; trees/<commit>.json is removed, because its presence makes
// the library demand the whole repository; and a variant's folder appears by
// one rename, because the library takes a folder that exists for complete.
package pull

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/hub/source"
	"github.com/thox-ai/thoxbuild/manifests"
)

// Layout is how the files are laid out.
type Layout string

// The layouts.
const (
	// Cache is a Hub cache: point KERNELS_CACHE (or HF_HUB_CACHE) at it.
	Cache Layout = "cache"
	// Plain is DIR/build/<variant>, for get_local_kernel and LOCAL_KERNELS.
	Plain Layout = "plain"
)

// Options say what to install and where.
type Options struct {
	Source source.Source
	// Repo names the kernel in a cache layout.
	Repo client.Repo
	// Lock is what the variants must be. Without it, each is only held
	// against its own metadata.
	Lock *lock.Kernel
	// Branch is written to refs/; the lock's if empty.
	Branch string
	Dir    string
	Layout Layout
	// Variants are names or globs; all of the locked ones if empty.
	Variants []string
	// Parallel is how many files are fetched at once; 8 by default.
	Parallel int
	Progress client.Progress
}

// Result says what was installed.
type Result struct {
	Repo     string                 `json:"repo"`
	Revision string                 `json:"revision"`
	Dir      string                 `json:"dir"`
	Variants map[string]lock.Digest `json:"variants"`
	// Fetched and Reused count bytes that were streamed and bytes that were
	// there already, hashed again.
	Fetched int64 `json:"bytes_fetched"`
	Reused  int64 `json:"bytes_reused"`
}

// ErrMismatch says that a variant is not what its lock or metadata promises.
// Nothing of it was installed.
var ErrMismatch = errors.New("not what was locked")

// Run installs. A variant is installed whole or not at all, and a run that was
// interrupted goes on where it stopped: files that have arrived are kept by
// the digest of their content.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Layout == "" {
		o.Layout = Cache
	}
	rev := o.Source.Revision()
	if rev == "" && o.Lock != nil {
		rev = o.Lock.Revision
	}
	if o.Lock != nil && rev != o.Lock.Revision {
		return nil, fmt.Errorf("%w: the source is revision %s, locked is %s", ErrMismatch, rev, o.Lock.Revision)
	}
	t, err := newTarget(o, rev)
	if err != nil {
		return nil, err
	}
	done, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	files, err := o.Source.Files(ctx)
	if err != nil {
		return nil, err
	}
	variants := source.Variants(files)
	names, err := choose(variants, o)
	if err != nil {
		return nil, err
	}
	res := &Result{Repo: o.Repo.ID(), Revision: rev, Dir: t.shown, Variants: map[string]lock.Digest{}}
	for _, name := range names {
		d, err := t.install(ctx, o, name, variants[name], res)
		if err != nil {
			return nil, fmt.Errorf("install %s from %s: %w", name, o.Source, err)
		}
		res.Variants[name] = d
	}
	return res, t.finish(o)
}

// choose picks variants and insists that the locked ones are there.
func choose(have map[string][]client.Entry, o Options) ([]string, error) {
	all := slices.Sorted(maps.Keys(have))
	if o.Lock != nil {
		all = slices.Sorted(maps.Keys(o.Lock.Variants))
	}
	var out []string
	for _, name := range all {
		hit := len(o.Variants) == 0
		for _, g := range o.Variants {
			ok, err := filepath.Match(g, name)
			if err != nil {
				return nil, fmt.Errorf("variant pattern %q: %w", g, err)
			}
			hit = hit || ok
		}
		if !hit {
			continue
		}
		if _, ok := have[name]; !ok {
			return nil, fmt.Errorf("%w: variant %s is locked, but %s does not hold it", ErrMismatch, name, o.Source)
		}
		out = append(out, name)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("nothing to install: %s has %s", o.Source, strings.Join(all, ", "))
	}
	for _, name := range out {
		if _, err := manifests.ParseVariantName(name); err != nil {
			return nil, err
		}
	}
	return out, nil
}
