package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/thox-ai/thoxbuild/compile"
	"github.com/thox-ai/thoxbuild/compile/action"
	"github.com/thox-ai/thoxbuild/matrix"
)

type buildOptions struct {
	sel       selection
	out       string
	jobs      int
	keepGoing bool
	dryRun    bool
	trace     bool
	rebuild   bool
	jsonOut   bool
	timeout   time.Duration
	cluster   clusterOptions
}

func newBuild(g *globals) *cobra.Command {
	var o buildOptions
	c := &cobra.Command{
		Use:   "build",
		Short: "Build variants into build/<variant>/",
		Long: `Build compiles, checks and lays out every chosen variant that this machine can
build. Compilers and headers are fetched when they are missing. Objects that
do not depend on torch are compiled once for all torch releases, and whatever
was compiled before, with the same inputs and tools, comes from the cache.

With --remote, compilers and linkers run on a cluster that speaks the Remote
Execution API v2, and results come from its action cache. Tools and sources are
sent as inputs, each file once. Checks, and compilers that are installed here,
run on this machine. With --remote-cache-only everything runs here, and only
the results are shared.`,
		Example: `  $ thoxbuild build
  $ thoxbuild build --variant 'torch213-*-cpu-*' -j 2
  $ thoxbuild build -n          # what would run, as commands to paste
  $ thoxbuild build --remote grpcs://cluster.example:443 --remote-header authorization=CLUSTER_TOKEN -j 200`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.jobs < 0 {
				return usagef("--jobs %d: expected a positive number", o.jobs)
			}
			if o.timeout < 0 {
				return usagef("--timeout %v: expected a positive duration, such as 10m", o.timeout)
			}
			if err := o.cluster.fromEnvironment(c.Flags().Changed, os.Getenv); err != nil {
				return err
			}
			if o.cluster.url != "" && !o.cluster.cacheOnly && !c.Flags().Changed("jobs") {
				o.jobs = remoteJobs
			}
			return runBuild(c.Context(), g, o)
		},
	}
	o.sel.flags(c)
	f := c.Flags()
	f.StringVar(&o.out, "out", "", "where variant folders go (default build/ beside build.toml)")
	f.IntVarP(&o.jobs, "jobs", "j", runtime.NumCPU(), "how many actions run at once (on a cluster, 32 where it is not given)")
	f.BoolVarP(&o.keepGoing, "keep-going", "k", false, "build what does not depend on a failed action")
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "print the commands that would run, and run none")
	f.BoolVarP(&o.trace, "trace", "x", false, "print each command as it runs")
	f.BoolVar(&o.rebuild, "rebuild", false, "compile everything again instead of using the cache")
	f.BoolVar(&o.jsonOut, "json", false, "print the result as JSON on stdout")
	o.cluster.flags(f)
	f.DurationVar(&o.timeout, "timeout", 0, "end a single action after this time (0 = never)")
	return c
}

func runBuild(ctx context.Context, g *globals, o buildOptions) (err error) {
	view := newView(g.streams)
	defer view.Close()
	b, err := g.openBench(ctx, o.sel, view)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close(ctx)) }()
	b.asks = o.dryRun
	b.whole = o.dryRun // its commands are for pasting
	if o.trace {
		b.executor.Trace = func(label, command string) { view.Printf("# %s\n%s", label, command) }
	}
	var executor action.Executor = b.executor
	if o.cluster.url != "" {
		there, err := o.cluster.executor(b.store, b.executor, view.Printf, os.LookupEnv)
		if err != nil {
			return err
		}
		defer there.Close()
		executor = there
	}
	if o.sel.shard == "" && !slices.ContainsFunc(b.picks, func(p chosen) bool { return len(p.variants) > 0 }) {
		return withHint(usagef("nothing to build: the bounds of build.toml and the workspace's [matrix] leave no variant"),
			"'thoxbuild matrix' says which bound leaves each required one out")
	}
	var here int
	var skipped []matrix.Variant
	for _, pick := range b.picks {
		for _, v := range pick.variants {
			if v.Buildable {
				here++
			} else {
				skipped = append(skipped, v)
			}
		}
	}
	if len(skipped) > 0 {
		if here == 0 {
			return withHint(fmt.Errorf("%s cannot be built here: %s", skipped[0].Name, skipped[0].Reason),
				"'thoxbuild matrix' shows what can")
		}
		view.Printf("%d of %d variants cannot be built here; 'thoxbuild matrix' says why", len(skipped), len(skipped)+here)
	}
	var results []*compile.Result
	var failed []error
	for _, pick := range b.picks {
		if !slices.ContainsFunc(pick.variants, func(v matrix.Variant) bool { return v.Buildable }) {
			continue
		}
		history := compile.OpenHistory(b.cache.Dir(), pick.kernel.Dir)
		plan, err := b.plan(ctx, pick, o.out, history)
		if err != nil {
			return err
		}
		if o.dryRun {
			known := b.cache
			if o.rebuild {
				known = nil
			}
			printPlan(g.streams, b, plan.Survey(known))
			continue
		}
		res, err := plan.Run(ctx, compile.RunOptions{
			Executor: executor, Cache: b.cache, Jobs: o.jobs, KeepGoing: o.keepGoing,
			Timeout: o.timeout, History: history, Observer: view, Rebuild: o.rebuild,
		})
		if saveErr := history.Save(); saveErr != nil {
			view.Printf("history of run times not saved: %v", saveErr)
		}
		if res != nil {
			results = append(results, res)
		}
		if err != nil {
			failed = append(failed, err)
			if !o.keepGoing || ctx.Err() != nil {
				break
			}
		}
	}
	view.Close()
	if !o.dryRun {
		if err := printResults(g.streams, results, o.jsonOut, o.cluster.url != ""); err != nil {
			return err
		}
	}
	return buildError(errors.Join(failed...))
}

// buildError gives a check's verdict its own exit code.
func buildError(err error) error {
	var check *compile.CheckError
	var act *compile.ActionError
	if errors.As(err, &check) && !errors.As(err, &act) {
		return findingsError{err.Error()}
	}
	return err
}

// printPlan prints what a build would run: the commands on stdout, the
// summary on stderr.
func printPlan(s *Streams, b *bench, survey compile.Survey) {
	for _, a := range survey.Missing {
		fmt.Fprintf(s.Out, "# %s, for %s\n", a.Label, strings.Join(a.Variants, " "))
		if command, ok := a.Describe(b.executor); ok {
			fmt.Fprintln(s.Out, command)
		}
	}
	s.notef("%d actions, %d cached, %d to run; estimated %.1f s, critical path %.1f s",
		survey.Total, survey.Cached, len(survey.Missing), survey.Seconds, survey.CriticalPath)
	for _, a := range survey.Chain {
		s.notef("  %6.1f s  %s", a.Cost, a.Label)
	}
}

// resultJSON is one variant in the output of --json.
type resultJSON struct {
	Variant string `json:"variant"`
	Dir     string `json:"dir"`
	Cached  bool   `json:"cached"`
	Error   string `json:"error,omitempty"`
}

func printResults(s *Streams, results []*compile.Result, asJSON, cluster bool) error {
	list := []resultJSON{}
	var n compile.Counts
	var cpu, wall float64
	for _, r := range results {
		for _, v := range r.Variants {
			j := resultJSON{Variant: v.Name, Dir: v.Dir, Cached: v.Cached}
			if v.Err != nil {
				j.Error = v.Err.Error()
			}
			list = append(list, j)
		}
		n.Ran += r.Counts.Ran
		n.Cached += r.Counts.Cached
		n.RanElsewhere += r.Counts.RanElsewhere
		n.CachedElsewhere += r.Counts.CachedElsewhere
		n.InProcess += r.Counts.InProcess
		cpu += r.CPUSeconds
		wall += r.Wall.Seconds()
	}
	if asJSON {
		all := map[string]any{"variants": list, "actions_run": n.Ran, "actions_cached": n.Cached,
			"cpu_seconds": cpu, "wall_seconds": wall}
		if cluster {
			all["actions_run_remotely"], all["actions_cached_remotely"], all["actions_in_process"] = n.RanElsewhere, n.CachedElsewhere, n.InProcess
		}
		return printJSON(s.Out, all)
	}
	for _, j := range list {
		if j.Error == "" {
			fmt.Fprintln(s.Out, j.Dir)
		}
	}
	if cluster {
		// The steps that are no command, above all the checks, are never the
		// cluster's: what it built is judged here.
		s.notef("%d actions ran on the cluster, %d came from its cache; here %d ran, %d were steps of thoxbuild itself, and %d came from the cache; %.1f s",
			n.RanElsewhere, n.CachedElsewhere, n.Ran-n.RanElsewhere-n.InProcess, n.InProcess, n.Cached-n.CachedElsewhere, wall)
		return nil
	}
	s.notef("%d actions ran, %d came from the cache; %.1f s of processor time in %.1f s", n.Ran, n.Cached, cpu, wall)
	return nil
}
