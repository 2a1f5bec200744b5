package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/thox-ai/thoxbuild/compile"
	"github.com/thox-ai/thoxbuild/manifests"
)

func newExplain(g *globals) *cobra.Command {
	var sel selection
	c := &cobra.Command{
		Use:   "explain VARIANT|FILE",
		Short: "Show what an action's key is made of, and what changed since its last run",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			ctx := c.Context()
			if name, err := manifests.ParseVariantName(args[0]); err == nil && len(sel.variants) == 0 {
				sel.variants = []string{name.String()} // the other variants' tools need not be there
			}
			b, err := g.openBench(ctx, sel, nil)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, b.close(c.Context())) }()
			b.asks = true
			found := 0
			for _, pick := range b.picks {
				history := compile.OpenHistory(b.cache.Dir(), pick.kernel.Dir)
				plan, err := b.plan(ctx, pick, "", history)
				if err != nil {
					return err
				}
				for _, a := range plan.Find(args[0]) {
					e, err := plan.Explain(a, b.cache, history)
					if err != nil {
						return err
					}
					found++
					printExplanation(g.streams, e)
				}
			}
			if found == 0 {
				return withHint(usagef("no action of this workspace concerns %q", args[0]), "give a variant's name or a source file")
			}
			return nil
		},
	}
	sel.flags(c)
	return c
}

func printExplanation(s *Streams, e *compile.Explanation) {
	state := "would run"
	if e.Cached {
		state = "cached"
	}
	key := "(an input is not built yet)"
	if e.Known {
		key = e.Key.String()
	}
	fmt.Fprintf(s.Out, "%s: %s\n  key %s\n", e.Label, state, key)
	for _, l := range e.Lines {
		fmt.Fprintf(s.Out, "  %s\n", l)
	}
	switch {
	case !e.Seen:
		fmt.Fprintln(s.Out, "  it has not run before")
	case len(e.Changes) == 0:
		fmt.Fprintln(s.Out, "  nothing changed since its last run")
	}
	for _, ch := range e.Changes {
		fmt.Fprintf(s.Out, "  changed: %s\n", ch)
	}
}
