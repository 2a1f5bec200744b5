package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/thox-ai/thoxbuild/compile"
	"github.com/thox-ai/thoxbuild/compile/cache"
	"github.com/thox-ai/thoxbuild/compile/local"
	sources "github.com/thox-ai/thoxbuild/compile/source"
	"github.com/thox-ai/thoxbuild/hub/source"
	"github.com/thox-ai/thoxbuild/hub/verify"
	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/matrix"
)

// rebuildOptions are the flags of verify --rebuild.
type rebuildOptions struct {
	on      bool
	sources string // a folder to take the sources from instead of the commit
	keep    string // where the rebuilt variants stay
	jobs    int
	timeout time.Duration
}

// rebuild builds the variants of a published revision again, from the commit
// that their metadata names or from a folder, with an empty cache, and adds
// every difference to the report.
func (g *globals) rebuild(ctx context.Context, published source.Source, only []string, o rebuildOptions, r *verify.Report) (err error) {
	groups, err := g.rebuildGroups(ctx, published, only, o, r)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "thoxbuild-rebuild-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for i, origin := range slices.SortedFunc(maps.Keys(groups), func(a, b origin) int { return strings.Compare(a.kernel+a.commit, b.kernel+b.commit) }) {
		from := o.sources
		if from == "" {
			if from, err = checkout(ctx, g.dir, origin.commit, filepath.Join(dir, fmt.Sprintf("sources%d", i))); err != nil {
				return err
			}
		}
		out := firstOf(o.keep, filepath.Join(dir, "out"))
		built, err := g.buildAgain(ctx, from, origin.kernel, groups[origin], out, filepath.Join(dir, "cache"), o, r)
		if err != nil {
			return err
		}
		for _, v := range built {
			folder, err := source.OpenFolder(filepath.Dir(v.Dir))
			if err != nil {
				return err
			}
			if err := r.CompareRebuilt(ctx, v.Name, published, folder); err != nil {
				return err
			}
		}
	}
	return nil
}

// origin is where variants say that they come from.
type origin struct{ kernel, commit string }

// rebuildGroups sorts the variants by their origin. One without a usable
// origin is a problem of the report.
func (g *globals) rebuildGroups(ctx context.Context, published source.Source, only []string, o rebuildOptions, r *verify.Report) (map[origin][]string, error) {
	files, err := published.Files(ctx)
	if err != nil {
		return nil, err
	}
	groups := map[origin][]string{}
	variants := source.Variants(files)
	for _, name := range slices.Sorted(maps.Keys(variants)) {
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		m, _, err := source.Metadata(ctx, published, variants[name])
		if m == nil {
			r.Add(verify.Problem{Kind: verify.NotRebuilt, Variant: name, Message: fmt.Sprintf("its metadata can't be read, so nothing says what it was built from: %v", err)})
			continue
		}
		from := origin{kernel: m.Name}
		if o.sources == "" {
			switch p := m.Provenance; {
			case p == nil || p.Kernel == nil:
				r.Add(verify.Problem{Kind: verify.NotRebuilt, Variant: name, File: manifests.MetadataFile, Message: "it names no commit of its sources; give them with --sources DIR"})
				continue
			case p.Kernel.Dirty:
				r.Add(verify.Problem{Kind: verify.NotRebuilt, Variant: name, File: manifests.MetadataFile,
					Message: fmt.Sprintf("it was built from a changed tree on top of commit %s, so no commit holds its sources; give them with --sources DIR", p.Kernel.SHA)})
				continue
			default:
				from.commit = p.Kernel.SHA
			}
		}
		groups[from] = append(groups[from], name)
	}
	return groups, nil
}

// checkout puts a commit of the repository around dir into a new clone that
// borrows its objects, and returns the folder that dir is in there.
func checkout(ctx context.Context, dir, commit, to string) (string, error) {
	hint := "run it in a clone of the sources that has the commit (git fetch), name one with -C, or give the sources with --sources DIR"
	out, err := git(ctx, "-C", dir, "rev-parse", "--show-toplevel", "--show-prefix")
	if err != nil {
		return "", withHint(fmt.Errorf("find the sources: commit %s: %s is in no git repository: %w", commit, dir, err), "%s", hint)
	}
	top, prefix, _ := strings.Cut(strings.TrimSuffix(out, "\n"), "\n")
	if _, err := git(ctx, "-C", top, "cat-file", "-e", commit+"^{commit}"); err != nil {
		return "", withHint(fmt.Errorf("find the sources: commit %s is not in the repository %s", commit, top), "%s", hint)
	}
	if _, err := git(ctx, "clone", "--quiet", "--shared", "--no-checkout", top, to); err != nil {
		return "", fmt.Errorf("check commit %s out: %w", commit, err)
	}
	if _, err := git(ctx, "-C", to, "checkout", "--quiet", "--detach", commit); err != nil {
		return "", fmt.Errorf("check commit %s out: %w", commit, err)
	}
	return filepath.Join(to, filepath.FromSlash(strings.TrimSuffix(prefix, "/"))), nil
}

// git runs git with nothing in its environment that points to a repository.
func git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = slices.DeleteFunc(cmd.Environ(), func(e string) bool { return strings.HasPrefix(e, "GIT_") })
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

// buildAgain builds variants of one kernel from a folder. It shares nothing
// with earlier builds but the fetched tools. toolchain.lock of the folder says
// which ones, and is not written.
func (g *globals) buildAgain(ctx context.Context, from, kernel string, names []string, out, cacheDir string, o rebuildOptions, r *verify.Report) (_ []compile.VariantResult, err error) {
	at := *g
	at.dir = from
	project, err := at.load()
	if err != nil {
		return nil, withHint(err, "%s is to hold the sources that %s was built from", from, kernel)
	}
	if _, err := os.Stat(lockPath(project)); errors.Is(err, os.ErrNotExist) {
		r.Notes = append(r.Notes, "the sources have no toolchain.lock, so the newest tools are taken and not those of the first build")
	}
	picks, err := at.expand(ctx, project, selection{})
	if err != nil {
		return nil, err
	}
	view := newView(g.streams)
	defer view.Close()
	b := &bench{project: project, index: sources.OpenIndex("")}
	if b.store, b.lock, err = at.openStore(project, view); err != nil {
		return nil, err
	}
	defer b.store.Close(ctx)
	if b.cache, err = cache.Open(ctx, cacheDir); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.cache.Close()) }()
	b.executor = &local.Executor{Scratch: b.cache.Scratch(), Resolve: b.store.Real, LocalEnv: b.store.LocalEnv}

	var pick chosen
	for _, p := range picks {
		if p.kernel.General.Name == kernel {
			pick = p
		}
	}
	var chosen []matrix.Variant
	for _, name := range names {
		i := slices.IndexFunc(pick.variants, func(v matrix.Variant) bool { return v.Name.String() == name })
		switch {
		case i < 0:
			r.Add(verify.Problem{Kind: verify.NotRebuilt, Variant: name, Message: fmt.Sprintf("the sources in %s have no such variant of %s", from, kernel)})
		case !pick.variants[i].Buildable:
			r.Add(verify.Problem{Kind: verify.NotRebuilt, Variant: name, Message: "it can't be built here: " + pick.variants[i].Reason})
		default:
			chosen = append(chosen, pick.variants[i])
		}
	}
	if pick.variants = chosen; len(chosen) == 0 {
		return nil, nil
	}
	plan, err := b.plan(ctx, pick, out, compile.OpenHistory(cacheDir, pick.kernel.Dir))
	if err != nil {
		return nil, err
	}
	jobs := o.jobs
	if jobs == 0 {
		jobs = runtime.NumCPU()
	}
	res, err := plan.Run(ctx, compile.RunOptions{
		Executor: b.executor, Cache: b.cache, Jobs: jobs, Timeout: o.timeout, Observer: view,
	})
	if err != nil {
		return nil, fmt.Errorf("build %s again from %s: %w", kernel, from, err)
	}
	return res.Variants, nil
}
