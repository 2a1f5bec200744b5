package command

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/thox-ai/thoxbuild/compile/cache"
	"github.com/thox-ai/thoxbuild/matrix"
	"github.com/thox-ai/thoxbuild/toolchain"
)

func newToolchain(g *globals) *cobra.Command {
	c := &cobra.Command{Use: "toolchain", Short: "Look at, fetch and prune the compilers and headers"}
	c.AddCommand(toolchainList(g), toolchainFetch(g), toolchainPrune(g))
	return c
}

func toolchainList(g *globals) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List what the store holds",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			s, _, err := g.openStore(nil, nil)
			if err != nil {
				return err
			}
			entries, err := s.List()
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(g.streams.Out, entries)
			}
			for _, e := range entries {
				fmt.Fprintf(g.streams.Out, "%9s  %s\n", megabytes(e.Bytes), e.Name)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func toolchainFetch(g *globals) *cobra.Command {
	var sel selection
	c := &cobra.Command{
		Use:   "fetch",
		Short: "Fetch what the chosen variants need, so that --offline builds work",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			ctx := c.Context()
			p, err := g.load()
			if err != nil {
				return err
			}
			picks, err := g.expand(ctx, p, sel)
			if err != nil {
				return err
			}
			view := newView(g.streams)
			defer view.Close()
			s, lock, err := g.openStore(p, view)
			if err != nil {
				return err
			}
			defer s.Close(ctx)
			defer func() { err = errors.Join(err, lock.Save(lockPath(p))) }()
			start := time.Now()
			done := map[toolchain.Request]bool{}
			for _, pick := range picks {
				for _, v := range filter(pick.variants, func(v matrix.Variant) bool { return v.Buildable }) {
					r := kitRequest(p.Workspace, v)
					if done[r] {
						continue
					}
					done[r] = true
					if _, err := s.Kit(ctx, r); err != nil {
						return err
					}
				}
			}
			view.Close()
			g.streams.notef("%d kits are ready in %.1f s", len(done), time.Since(start).Seconds())
			return nil
		},
	}
	sel.flags(c)
	return c
}

func toolchainPrune(g *globals) *cobra.Command {
	var age time.Duration
	c := &cobra.Command{
		Use:   "prune",
		Short: "Remove tools made, and objects last used, longer ago than --older, and all downloads",
		Long: `Prune removes tools that were made longer ago than --older, objects of the
build cache that no build has used since, and all downloads. It fails while a
build uses the store. What a later build needs is fetched or compiled again.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if age < 0 {
				return usagef("--older %v: expected a positive duration, such as 720h", age)
			}
			s, _, err := g.openStore(nil, nil)
			if err != nil {
				return err
			}
			c, err := cache.Open(cmd.Context(), filepath.Join(s.Dir(), "cache"))
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, c.Close()) }()
			trimmed, err := c.Trim(age)
			if err != nil {
				return err
			}
			var tools, compilers int64
			err = c.Alone(func() (err error) {
				entries, err := s.List()
				if err != nil {
					return err
				}
				old := map[string]bool{}
				for _, e := range entries {
					old[e.Name] = time.Since(e.Used) > age
				}
				if tools, err = s.Prune(func(name string) bool { return !old[name] }); err != nil {
					return err
				}
				compilers, err = s.PruneCompilerCaches(age)
				return err
			})
			g.streams.notef("freed %s: tools and downloads %s, objects %s, compilers' own caches %s",
				megabytes(tools+compilers+trimmed.RemovedBytes), megabytes(tools), megabytes(trimmed.RemovedBytes), megabytes(compilers))
			return err
		},
	}
	c.Flags().DurationVar(&age, "older", 30*24*time.Hour, "age of an entry")
	return c
}

func newDoctor(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine can build, what is missing and how to get it",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			bad := 0
			for _, ch := range toolchain.Doctor(c.Context(), g.indexURL, g.offline) {
				mark := g.streams.paint(green, "ok")
				if ch.Err != nil {
					mark = g.streams.paint(yellow, "missing")
					if ch.Required {
						mark = g.streams.paint(red, "missing")
						bad++
					}
				}
				fmt.Fprintf(g.streams.Out, "%-8s %s\n", mark, ch.Name)
				if ch.Err != nil {
					fmt.Fprintf(g.streams.Out, "         %v\n", ch.Err)
				}
			}
			if bad > 0 {
				return findingsError{fmt.Sprintf("%d things are missing that every build needs", bad)}
			}
			return nil
		},
	}
}
