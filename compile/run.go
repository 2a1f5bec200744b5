package compile

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/thox-ai/thoxbuild/compile/action"
	"github.com/thox-ai/thoxbuild/compile/cache"
)

// RunOptions say how a plan is carried out.
type RunOptions struct {
	Executor action.Executor
	Cache    *cache.Disk
	// Jobs is how many actions run at once; 0 means one for each processor.
	Jobs int
	// KeepGoing runs whatever does not wait for a failed action.
	KeepGoing bool
	// Timeout ends a single action; 0 means never.
	Timeout time.Duration
	// History, when set, learns what ran. The caller saves it.
	History *History
	// Observer may be nil.
	Observer Observer
	// Rebuild takes no result from the cache.
	Rebuild bool
}

// Counts are the actions of a run by how they ended.
type Counts struct {
	Total, Cached, Ran, Failed, Skipped int
	// CachedElsewhere and RanElsewhere are those of Cached and Ran that another
	// machine knew or did, and InProcess those of Ran that are no command.
	CachedElsewhere, RanElsewhere, InProcess int
}

// VariantResult is one variant's folder, or why there is none.
type VariantResult struct {
	Name string
	// Dir is the variant's folder.
	Dir string
	// Ops is the name of its extension.
	Ops string
	// Cached says that the folder held these bytes already and was left alone.
	Cached bool
	Err    error
}

// Result is what a run did.
type Result struct {
	// Variants are in the order of the plan.
	Variants []VariantResult
	Counts   Counts
	// CPUSeconds is the processor time of the actions that ran; SavedSeconds
	// is what the cached ones took when they ran.
	CPUSeconds, SavedSeconds float64
	// CriticalPath is the measured seconds of the longest chain of actions.
	CriticalPath float64
	Wall         time.Duration
}

// ActionError is an action that failed, with what a person needs to go on.
type ActionError struct {
	Label    string
	Command  string // one pasteable line
	Output   string
	ExitCode int
	// Variants wait for the action.
	Variants []string
	// Hint may be empty.
	Hint string
	Err  error // set when the command did not run to its end
}

// Error prints the command, its output and who waits.
func (e *ActionError) Error() string { return e.format() }

// Unwrap gives the reason where the command did not run to its end.
func (e *ActionError) Unwrap() error { return e.Err }

// Run carries the plan out. Variants that could be built are complete even
// when others failed; the error joins the failures. An unchanged folder is not
// written.
func (p *Plan) Run(ctx context.Context, o RunOptions) (*Result, error) {
	if o.Jobs <= 0 {
		o.Jobs = runtime.GOMAXPROCS(0)
	}
	start := time.Now()
	var res *Result
	var err error
	// A run ends early where the cache had lost what it promised; the promise
	// has gone with it, so the next run makes that blob again. Each round heals
	// at least one action, which bounds the rounds.
	for range len(p.actions) + 1 {
		res, err = newRunner(p, o).run(ctx)
		var missing *missingBlobError
		if err == nil || ctx.Err() != nil || !errors.As(err, &missing) {
			break
		}
	}
	if o.History != nil {
		o.History.remember(p)
	}
	res.Wall = time.Since(start)
	if cerr := ctx.Err(); cerr != nil {
		return res, cerr
	}
	return res, err
}

// resolveKey is the key of an action whose dependencies have their results.
func resolveKey(a *Action, results []*action.Result) (action.Digest, error) {
	if key, ok := a.Key(); ok {
		return key, nil
	}
	spec, err := resolveSpec(a, results)
	if err != nil {
		return action.Digest{}, err
	}
	return spec.Key()
}

// resolveSpec fills in an action's inputs from the results of its
// dependencies.
func resolveSpec(a *Action, results []*action.Result) (*action.Spec, error) {
	return a.spec(func(in input) (action.Digest, error) {
		r := results[in.from.index]
		if r == nil {
			return action.Digest{}, fmt.Errorf("%s has no result", in.from.Label)
		}
		out, ok := r.Output(in.output)
		if !ok {
			return action.Digest{}, fmt.Errorf("%s did not make %s", in.from.Label, in.output)
		}
		return out.Digest, nil
	})
}
