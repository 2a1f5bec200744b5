package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/matrix"
	"github.com/thox-ai/thoxbuild/toolchain"
)

// load reads the workspace or kernel of -C and prints its warnings.
func (g *globals) load() (*manifests.Project, error) {
	p, err := manifests.Load(g.dir)
	if err != nil {
		var problems manifests.Problems
		if errors.As(err, &problems) || errors.Is(err, os.ErrNotExist) {
			return nil, usageError{err}
		}
		return nil, err
	}
	for _, w := range p.Warnings {
		g.streams.notef("%s", w)
	}
	return p, nil
}

// lockPath is toolchain.lock's place: beside the workspace's build.toml.
func lockPath(p *manifests.Project) string {
	return filepath.Join(p.Workspace.Dir, "toolchain.lock")
}

// openStore opens the toolchain store with the project's lock.
func (g *globals) openStore(p *manifests.Project, progress toolchain.Progress) (*toolchain.Store, *toolchain.Lock, error) {
	dir, err := g.storeDir()
	if err != nil {
		return nil, nil, err
	}
	lock := &toolchain.Lock{}
	if p != nil {
		if lock, err = toolchain.ReadLock(lockPath(p)); err != nil {
			return nil, nil, usageError{err}
		}
	}
	s, err := toolchain.Open(toolchain.Options{
		Dir: dir, IndexURL: g.indexURL, Offline: g.offline, Lock: lock, Progress: progress,
		Log: func(format string, args ...any) { g.streams.notef(format, args...) },
	})
	return s, lock, err
}

// outDir is where a kernel's variants go: build/ beside the workspace's
// build.toml, with a folder per kernel where there are several.
func outDir(p *manifests.Project, k *manifests.Kernel, flag string) string {
	base := flag
	if base == "" {
		base = filepath.Join(p.Workspace.Dir, "build")
	}
	if len(p.Kernels) > 1 {
		return filepath.Join(base, k.General.Name)
	}
	return base
}

// selection is what --kernel, --variant and --shard choose from a project.
type selection struct {
	kernels  []string
	variants []string
	shard    string
	required bool
}

// chosen is one kernel with the variants to work on.
type chosen struct {
	kernel   *manifests.Kernel
	variants []matrix.Variant
	missing  []matrix.Missing
}

// expand applies the selection. Every variant knows whether it can be built
// on this machine.
func (g *globals) expand(ctx context.Context, p *manifests.Project, sel selection) ([]chosen, error) {
	var shard *matrix.Shard
	if sel.shard != "" {
		s, err := matrix.ParseShard(sel.shard)
		if err != nil {
			return nil, usageError{err}
		}
		shard = &s
	}
	probe := g.probe(ctx, p.Workspace.Toolchain.CUDA)
	var out []chosen
	known := map[string]bool{}
	var all []matrix.Variant
	for _, k := range p.Kernels {
		known[k.General.Name] = true
		if len(sel.kernels) > 0 && !slices.Contains(sel.kernels, k.General.Name) {
			continue
		}
		vs, err := matrix.Expand(k, p.Workspace)
		if err != nil {
			return nil, usageError{err}
		}
		matrix.Decide(vs, probe)
		out = append(out, chosen{kernel: k, missing: matrix.MissingRequired(k, p.Workspace, vs)})
		all = append(all, vs...)
	}
	for _, name := range sel.kernels {
		if !known[name] {
			return nil, usagef("the workspace has no kernel %q", name)
		}
	}
	// A glob is for all kernels together: each need not have what it names.
	all, err := matrix.Select(all, sel.variants)
	if err != nil {
		return nil, withHint(usageError{err}, "'thoxbuild matrix' lists the variants")
	}
	for i := range out {
		out[i].variants = filter(all, func(v matrix.Variant) bool { return v.Kernel == out[i].kernel })
	}
	if len(sel.variants) > 0 {
		out = filter(out, func(c chosen) bool { return len(c.variants) > 0 })
	}
	if sel.required {
		for i := range out {
			out[i].variants = filter(out[i].variants, func(v matrix.Variant) bool { return v.Status == matrix.Required })
		}
	}
	if shard != nil {
		return out, g.takeShard(*shard, out)
	}
	return out, nil
}

// probe answers whether this machine has, or can fetch, a tool.
func (g *globals) probe(ctx context.Context, cuda manifests.CUDASource) matrix.Probe {
	return func(n matrix.Need) error { return toolchain.AvailableFrom(ctx, n, cuda) }
}

func filter[T any](in []T, keep func(T) bool) []T {
	out := in[:0:0]
	for _, x := range in {
		if keep(x) {
			out = append(out, x)
		}
	}
	return out
}

// notef says something on stderr.
func (s *Streams) notef(format string, args ...any) {
	fmt.Fprintf(s.Err, format+"\n", args...)
}
