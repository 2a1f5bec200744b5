package command

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/thox-ai/thoxbuild/compile"
	"github.com/thox-ai/thoxbuild/compile/cache"
	"github.com/thox-ai/thoxbuild/compile/local"
	"github.com/thox-ai/thoxbuild/compile/source"
	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/matrix"
	"github.com/thox-ai/thoxbuild/toolchain"
)

// bench is what a build command works with: the opened store and cache and
// the kernels with their variants.
type bench struct {
	project  *manifests.Project
	store    *toolchain.Store
	lock     *toolchain.Lock
	cache    *cache.Disk
	index    *source.Index
	executor *local.Executor
	picks    []chosen
	// whole makes everything that commands name before a plan is done, also
	// what the build itself may never need.
	whole bool
	// asks is set where nothing is built: then the kernel's folder stays as
	// it is, and what tools a plan took is pinned by the build that runs it.
	asks bool
}

// openBench loads everything that planning needs. The caller closes it.
func (g *globals) openBench(ctx context.Context, sel selection, progress toolchain.Progress) (*bench, error) {
	p, err := g.load()
	if err != nil {
		return nil, err
	}
	b := &bench{project: p}
	if b.picks, err = g.expand(ctx, p, sel); err != nil {
		return nil, err
	}
	if b.store, b.lock, err = g.openStore(p, progress); err != nil {
		return nil, err
	}
	dir := filepath.Join(b.store.Dir(), "cache")
	if b.cache, err = cache.Open(ctx, dir); err != nil {
		return nil, withHint(err, "the cache must be writable; choose another place with --store DIR")
	}
	b.index = source.OpenIndex(filepath.Join(dir, "sources.index"))
	b.executor = &local.Executor{Scratch: b.cache.Scratch(), Resolve: b.store.Real, LocalEnv: b.store.LocalEnv}
	return b, nil
}

func (b *bench) close(ctx context.Context) error {
	b.store.Close(ctx)
	err := b.index.Save()
	if !b.asks {
		err = errors.Join(err, b.lock.Save(lockPath(b.project)))
	}
	return errors.Join(err, b.cache.Close())
}

// plan makes the plan for one kernel. Only variants that can be built here are
// in it.
func (b *bench) plan(ctx context.Context, pick chosen, out string, history *compile.History) (*compile.Plan, error) {
	kits := map[toolchain.Request]*compile.Toolset{}
	return compile.NewPlan(compile.Config{
		Kernel: pick.kernel, Workspace: b.project.Workspace,
		Variants: filter(pick.variants, func(v matrix.Variant) bool { return v.Buildable }),
		OutDir:   outDir(b.project, pick.kernel, out),
		Index:    b.index,
		Builder:  "thoxbuild " + version(),
		Commit:   func() compile.CommitOf { return compile.GitCommit(ctx, pick.kernel.Dir, workspaceFile(b.project)) },
		Check:    checker{b.project.Workspace.Dispatch[pick.kernel.General.Name]}, Devices: cudaDevices,
		Costs: history.Costs,
		Tools: func(v matrix.Variant) (*compile.Toolset, error) {
			r := kitRequest(b.project.Workspace, v)
			if ts := kits[r]; ts != nil {
				return ts, nil
			}
			makeKit := b.store.CompileKit
			if b.whole {
				makeKit = b.store.Kit
			}
			kit, err := makeKit(ctx, r)
			if err != nil {
				return nil, err
			}
			kits[r] = compile.FromKit(kit, v.Torch)
			return kits[r], nil
		},
	})
}

// workspaceFile is the build.toml that a kernel's own is read with.
func workspaceFile(p *manifests.Project) string {
	return filepath.Join(p.Workspace.Dir, "build.toml")
}

// kitRequest says what a variant needs of the toolchain. Variants with equal
// requests share a kit.
func kitRequest(w *manifests.Workspace, v matrix.Variant) toolchain.Request {
	return toolchain.Request{
		Torch: v.Torch, Compute: v.Compute, Platform: v.Platform,
		Zig: w.Toolchain.Zig, Glibc: w.Toolchain.Glibc, CUDA: w.Toolchain.CUDA,
	}
}
