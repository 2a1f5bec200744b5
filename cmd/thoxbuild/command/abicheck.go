package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thox-ai/thoxbuild/abicheck"
	"github.com/thox-ai/thoxbuild/abicheck/policy"
	"github.com/thox-ai/thoxbuild/abicheck/report"
	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/toolchain/torchexports"
)

func newAbicheck(g *globals) *cobra.Command {
	var o abicheck.Options
	var format, explain, suppressions, torch, stable, python string
	var list bool
	c := &cobra.Command{
		Use:   "abicheck [PATH...]",
		Short: "Prove that binaries are safe to load: symbol versions, Python and torch ABI, instruction sets",
		Long: `Abicheck looks at shared libraries, objects, archives, wheels, variant folders
and whole trees. What a file promises is read from its variant's name, its
metadata or its wheel's tags, and may be given by flags.

Exit status 3 means that errors were found.`,
		Example: `  $ thoxbuild abicheck build/
  $ thoxbuild abicheck --format sarif dist/*.whl > findings.sarif
  $ thoxbuild abicheck --explain ISA-COMDAT`,
		RunE: func(c *cobra.Command, args []string) error {
			out := g.streams.Out
			if list {
				for _, r := range abicheck.Rules() {
					fmt.Fprintf(out, "%-16s %-8s %s\n", r.ID, r.Severity, r.Title)
				}
				return nil
			}
			if explain != "" {
				text, err := abicheck.Explain(explain)
				if err != nil {
					return withHint(usageError{err}, "'thoxbuild abicheck --list' names the rules")
				}
				fmt.Fprintln(out, text)
				return nil
			}
			if len(args) == 0 {
				return withHint(usagef("no file or folder to check"), "try 'thoxbuild abicheck build/'")
			}
			for _, f := range []struct {
				text string
				set  func(manifests.Version)
			}{
				{torch, func(v manifests.Version) { o.Torch = &v }},
				{stable, func(v manifests.Version) { o.StableABI = &v }},
				{python, func(v manifests.Version) { o.PythonABI = v }},
			} {
				if f.text == "" {
					continue
				}
				v, err := manifests.ParseVersion(f.text)
				if err != nil {
					return usageError{err}
				}
				f.set(v)
			}
			if err := checkPromises(&o); err != nil {
				return err
			}
			if suppressions != "" {
				s, err := abicheck.LoadSuppressions(suppressions)
				if err != nil {
					return usageError{err}
				}
				o.Suppressions = s
			}
			write := map[string]func(*abicheck.Report) error{
				"text": func(r *abicheck.Report) error {
					return r.Text(out, report.TextOptions{Color: g.streams.OutColor})
				},
				"json":   func(r *abicheck.Report) error { return r.JSON(out) },
				"sarif":  func(r *abicheck.Report) error { return r.SARIF(out) },
				"github": func(r *abicheck.Report) error { return r.GitHub(out) },
			}[format]
			if write == nil {
				return usagef("--format %s: expected text, json, sarif or github", format)
			}
			r, err := abicheck.Check(c.Context(), args, &o)
			if err != nil {
				return err
			}
			if err := write(r); err != nil {
				return err
			}
			if r.Failed() {
				return findingsError{r.Summary()}
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&format, "format", "text", "text, json, sarif or github")
	f.StringVar(&explain, "explain", "", "print what a rule means and how to fix it, by its `ID`")
	f.BoolVar(&list, "list", false, "list the rules")
	f.StringVar(&o.Manylinux, "manylinux", "", "the policy to hold, such as manylinux_2_28, or none")
	f.StringVar(&python, "python-abi", "", "the oldest Python, such as 3.9")
	f.StringVar(&torch, "torch", "", "the torch release whose exports the file may use, such as 2.13")
	f.StringVar(&stable, "torch-stable-abi", "", "the torch stable-ABI floor, such as 2.11")
	f.StringVar(&o.Baseline, "baseline", "", "the oldest processor: x86-64, x86-64-v2, x86-64-v3, armv8-a or apple-m1")
	f.BoolVar(&o.FactsOnly, "facts", false, "leave out the passes that decode machine code")
	f.BoolVar(&o.Strict, "strict", false, "fail on warnings too")
	f.StringSliceVar(&o.Only, "only", nil, "only these rules, by `ID`, and whether a file can be read at all")
	f.StringVar(&suppressions, "suppress", "", "`FILE` of accepted findings, each with a reason and an expiry")
	return c
}

// checkPromises refuses what no rule would look at: a gate that is misspelt must
// not let everything through.
func checkPromises(o *abicheck.Options) error {
	if o.Baseline != "" && !slices.Contains(abicheck.Baselines, o.Baseline) {
		return usagef("--baseline %s: expected one of %s", o.Baseline, strings.Join(abicheck.Baselines, ", "))
	}
	if o.Manylinux != "" && o.Manylinux != "none" {
		if _, err := policy.FindManylinux(o.Manylinux); err != nil {
			return usagef("--manylinux: %w", err)
		}
	}
	if known := torchexports.Releases(); o.Torch != nil && !slices.Contains(known, *o.Torch) {
		return withHint(usagef("--torch %v: the exports of that release are not known; expected %v to %v", *o.Torch, known[0], known[len(known)-1]),
			"leave --torch out to check everything else")
	}
	for i, id := range o.Only {
		r, err := abicheck.Rule(id)
		if err != nil {
			return withHint(usagef("--only: %w", err), "'thoxbuild abicheck --list' names the rules")
		}
		o.Only[i] = r.ID
	}
	return nil
}
