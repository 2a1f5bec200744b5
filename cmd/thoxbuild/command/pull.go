package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/hub/pull"
)

func newPull(g *globals) *cobra.Command {
	var endpoint, lockFile, repoType, layout string
	var o pull.Options
	c := &cobra.Command{
		Use:   "pull [REPO[@REVISION]]",
		Short: "Install exactly what is locked, verified while it streams, for offline use",
		Long: `Pull fetches the revision that thoxbuild.lock pins and lays it out so that the
unmodified kernels library loads it without a network: point HF_HUB_CACHE at
the folder. Every byte is checked against the lock before a file gets its name.`,
		Example: `  $ thoxbuild pull --dir cache
  $ HF_HUB_CACHE=cache HF_HUB_OFFLINE=1 python -c 'import kernels; ...'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			var id, revision string
			if len(args) == 1 {
				id, revision = splitRevision(args[0])
			}
			t, err := parseRepoType(repoType)
			if err != nil {
				return err
			}
			if revision == "" {
				f, err := lock.Load(lockFile)
				if err != nil {
					return withHint(usageError{err}, "give the lock with --lock FILE, or name REPO@REVISION")
				}
				if o.Lock, err = locked(f, id, "", lockFile); err != nil {
					return err
				}
				id, revision, o.Branch = o.Lock.Repo, o.Lock.Revision, o.Lock.Branch
				if o.Lock.Type != "" {
					t = o.Lock.Type
				}
			}
			hc, err := g.hubClient(ctx, endpoint)
			if err != nil {
				return err
			}
			src, err := hubSource(ctx, hc, t, id, revision)
			if err != nil {
				return err
			}
			if o.Repo, err = client.ParseRepo(t, id); err != nil {
				return usageError{err}
			}
			o.Source, o.Layout = src, pull.Layout(layout)
			res, err := pull.Run(ctx, o)
			if err != nil {
				return err
			}
			g.streams.notef("%s@%s: %d variants, %s fetched, %s there already", res.Repo, res.Revision,
				len(res.Variants), megabytes(res.Fetched), megabytes(res.Reused))
			fmt.Fprintln(g.streams.Out, res.Dir)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&o.Dir, "dir", "cache", "where to install")
	f.StringVar(&layout, "layout", string(pull.Cache), "cache (what HF_HUB_CACHE reads) or folder")
	f.StringVar(&lockFile, "lock", lock.FileName, "the lock `FILE`")
	f.StringVar(&endpoint, "endpoint", "", "the Hub's address (default $HF_ENDPOINT)")
	f.StringVar(&repoType, "repo-type", "kernel", "kernel or model")
	f.StringSliceVar(&o.Variants, "variant", nil, "only variants whose names match `GLOB`")
	return c
}
