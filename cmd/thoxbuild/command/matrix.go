package command

import (
	"github.com/spf13/cobra"

	"github.com/thox-ai/thoxbuild/matrix"
)

func newMatrix(g *globals) *cobra.Command {
	var sel selection
	var format string
	var all bool
	var shards int
	c := &cobra.Command{
		Use:   "matrix",
		Short: "List what this workspace builds, what is required, and what cannot be built here and why",
		Long: `Matrix lists every variant of the workspace's kernels: its status on the Hub's
list (required, official or extra), the device architectures it is compiled
for, and whether this machine can build it. Required builds that do not come
out are listed below the table with the reason.`,
		Example: `  $ thoxbuild matrix
  $ thoxbuild matrix --required --format json
  $ thoxbuild matrix --format github
  $ thoxbuild matrix --format github --shards 4`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := g.load()
			if err != nil {
				return err
			}
			picks, err := g.expand(c.Context(), p, sel)
			if err != nil {
				return err
			}
			if shards != 0 {
				return g.githubShards(picks, shards, format, sel)
			}
			var vs []matrix.Variant
			var missing []matrix.Missing
			for _, pick := range picks {
				vs = append(vs, pick.variants...)
				missing = append(missing, pick.missing...)
			}
			switch format {
			case "table":
				return matrix.Table(g.streams.Out, vs, missing)
			case "json":
				return matrix.JSON(g.streams.Out, vs, missing)
			case "github":
				if !all {
					vs = filter(vs, func(v matrix.Variant) bool { return v.Buildable })
				}
				return matrix.GitHub(g.streams.Out, vs)
			}
			return usagef("--format %s: expected table, json or github", format)
		},
	}
	sel.flags(c)
	c.Flags().StringVar(&format, "format", "table", "table, json or github (a GitHub Actions matrix)")
	c.Flags().IntVar(&shards, "shards", 0, "with --format github, `N` jobs of about the same length instead of one for each variant")
	c.Flags().BoolVar(&all, "all", false, "with --format github, also list what this machine cannot build")
	return c
}

// githubShards prints the matrix of N jobs. Each names its variants, so that
// the jobs agree whatever their caches hold.
func (g *globals) githubShards(picks []chosen, n int, format string, sel selection) error {
	switch {
	case format != "github":
		return usagef("--shards is for --format github; 'thoxbuild build --shard I/N' takes a part of the work")
	case n < 1 || n > matrix.MaxShards:
		return usagef("--shards %d: expected 1 to %d", n, matrix.MaxShards)
	case sel.shard != "":
		return usagef("--shard takes one part, --shards lists all: give one of them")
	case len(picks) > 1:
		return withHint(usagef("--shards: the workspace has %d kernels", len(picks)), "choose one with --kernel")
	}
	for i := range picks {
		picks[i].variants = filter(picks[i].variants, func(v matrix.Variant) bool { return v.Buildable })
	}
	lists, seconds, err := g.deal(picks, n)
	if err != nil {
		return err
	}
	return matrix.GitHubShards(g.streams.Out, lists, seconds)
}

// flags adds the flags that choose variants.
func (sel *selection) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringSliceVar(&sel.kernels, "kernel", nil, "only these kernels of the workspace")
	f.StringSliceVar(&sel.variants, "variant", nil, "only variants whose names match `GLOB`; may be repeated")
	f.StringVar(&sel.shard, "shard", "", "only part `I/N` of the work, balanced by estimated cost")
	f.BoolVar(&sel.required, "required", false, "only variants on the Hub's required list")
}
