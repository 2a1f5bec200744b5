package command

import (
	"context"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/hub/oci"
	"github.com/thox-ai/thoxbuild/hub/pull"
	"github.com/thox-ai/thoxbuild/hub/source"
)

// pullFlags say where a pull takes its files from and how it lays them out.
type pullFlags struct {
	endpoint, lock, repoType, layout, as, from string
}

func newPull(g *globals) *cobra.Command {
	var pf pullFlags
	var lockedDir string
	var o pull.Options
	c := &cobra.Command{
		Use:   "pull [REPO[@REVISION] | oci://HOST/REPO[:TAG]]",
		Short: "Install exactly what is locked, verified while it streams, for offline use",
		Long: `Pull fetches the revision that thoxbuild.lock pins, from a Hub or a registry, and
lays it out so that the unmodified kernels library loads it without a network:
point HF_HUB_CACHE at the folder. Every byte is checked against the lock before
a file gets its name. --locked DIR installs all that the lock pins.

Layouts: cache is a Hub cache, for HF_HUB_CACHE or KERNELS_CACHE; plain is
DIR/build/<variant>, for get_local_kernel and LOCAL_KERNELS.`,
		Example: `  $ thoxbuild pull --dir cache
  $ HF_HUB_CACHE=cache HF_HUB_OFFLINE=1 python -c 'import kernels; ...'
  $ thoxbuild pull oci://registry.example.org/thox-ai/thox-edge-ops:v1 --variant 'torch213-*'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			o.Layout = pull.Layout(pf.layout)
			if o.Layout != pull.Cache && o.Layout != pull.Plain {
				return usagef("--layout %s: expected %s or %s", pf.layout, pull.Cache, pull.Plain)
			}
			t, err := parseRepoType(pf.repoType)
			if err != nil {
				return err
			}
			var id, revision string
			if len(args) == 1 {
				id, revision = splitRevision(args[0])
			}
			if revision != "" || taggedTarget(id) {
				if lockedDir != "" {
					return usagef("--locked installs what %s pins; name no revision", pf.lock)
				}
				return g.pullOne(ctx, o, pf, t, id, revision)
			}
			f, err := lock.Load(pf.lock)
			if err == nil && len(f.Kernels) == 0 {
				err = fmt.Errorf("%s: %w, or it pins nothing", pf.lock, fs.ErrNotExist)
			}
			if err != nil {
				return withHint(usageError{err}, "give the lock with --lock FILE, or name REPO@REVISION")
			}
			if lockedDir != "" {
				o.Dir = lockedDir
			}
			if lockedDir != "" && id == "" {
				for i := range f.Kernels {
					if err := g.pullLocked(ctx, o, pf, &f.Kernels[i]); err != nil {
						return err
					}
				}
				return nil
			}
			k, err := locked(f, lockName(id), "", pf.lock)
			if err != nil {
				return err
			}
			return g.pullLocked(ctx, o, pf, k)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Dir, "dir", "cache", "where to install")
	f.StringVar(&lockedDir, "locked", "", "install everything that the lock pins to `DIR`")
	f.StringVar(&pf.layout, "layout", string(pull.Cache), "cache (what HF_HUB_CACHE reads) or plain (what get_local_kernel reads)")
	f.StringVar(&pf.lock, "lock", lock.FileName, "the lock `FILE`")
	f.StringVar(&pf.endpoint, "endpoint", "", "the Hub's address (default $HF_ENDPOINT)")
	f.StringVar(&pf.repoType, "repo-type", "kernel", "kernel or model")
	f.StringVar(&pf.as, "as", "", "`NAMESPACE/NAME` in the cache of a kernel from a registry (default the end of its path)")
	f.StringVar(&pf.from, "from", "", "take the locked files from this `FOLDER` instead")
	f.StringSliceVar(&o.Variants, "variant", nil, "only variants whose names match `GLOB`")
	return c
}

// pullLocked installs one entry of a lock.
func (g *globals) pullLocked(ctx context.Context, o pull.Options, pf pullFlags, k *lock.Kernel) error {
	o.Lock, o.Branch = k, k.Branch
	return g.pullOne(ctx, o, pf, k.Type, k.Repo, k.Revision)
}

// pullOne installs a revision from wherever it is.
func (g *globals) pullOne(ctx context.Context, o pull.Options, pf pullFlags, t client.RepoType, id, revision string) error {
	var err error
	if strings.HasPrefix(id, oci.Scheme) {
		target, err := registryTarget(id, revision)
		if err != nil {
			return err
		}
		if o.Layout == pull.Cache || pf.as != "" {
			if o.Repo, err = registryRepo(target, pf.as); err != nil {
				return err
			}
		}
		if o.Branch == "" {
			o.Branch = target.Tag
		}
		if pf.from == "" {
			src, err := oci.Open(ctx, target, oci.Access{Log: g.streams.notef}, o.Variants...)
			if err != nil {
				return err
			}
			defer src.Close()
			o.Source = src
		}
	} else {
		if o.Repo, err = client.ParseRepo(t, id); err != nil {
			return usageError{err}
		}
		if pf.from == "" {
			hc, err := g.hubClient(ctx, pf.endpoint)
			if err != nil {
				return err
			}
			src, err := hubSource(ctx, hc, t, id, revision)
			if err != nil {
				return err
			}
			o.Source = src
			if o.Branch == "" && !client.IsCommit(revision) {
				o.Branch = revision
			}
		}
	}
	if pf.from != "" {
		if o.Lock == nil {
			return usagef("--from needs a lock that says what to expect")
		}
		if o.Source, err = source.OpenFolder(pf.from); err != nil {
			return usageError{err}
		}
	}
	res, err := pull.Run(ctx, o)
	if err != nil {
		return err
	}
	g.streams.notef("%s@%s: %d variants, %s fetched, %s there already", id, res.Revision,
		len(res.Variants), megabytes(res.Fetched), megabytes(res.Reused))
	fmt.Fprintln(g.streams.Out, res.Dir)
	return nil
}

// taggedTarget reports whether a registry's address names a tag, which needs
// no lock to be found.
func taggedTarget(id string) bool {
	t, err := oci.ParseTarget(id)
	return err == nil && t.Tag != ""
}
