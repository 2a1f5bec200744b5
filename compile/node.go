package compile

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// Kind is what an action does.
type Kind string

// The kinds of actions.
const (
	KindCompile Kind = "compile"
	KindDevice  Kind = "device"
	KindConvert Kind = "convert" // CUDA sources to HIP
	KindIsolate Kind = "isolate"
	KindMetal   Kind = "metal"
	KindCheck   Kind = "check"
	KindLink    Kind = "link"
)

// Action is one step of a plan. Several variants may wait for it.
type Action struct {
	Kind  Kind
	Label string
	// Variants are the names of the variants that need it, in plan order.
	Variants []string
	// Deps are the actions whose outputs it reads.
	Deps []*Action
	// Cost is the estimated run time in seconds, from the last build where one
	// is known; Run and Survey set it when something has to run.
	Cost float64

	args     []string
	env      map[string]string
	outputs  []string
	platform map[string]string
	inputs   []input
	// inProcess runs the action here instead of handing it to an executor.
	inProcess func(ctx context.Context, s *stepEnv) (*action.Result, error)
	// early is tried first, then ready completes what the action names; both
	// may be nil.
	early *EarlyLink
	ready func(ctx context.Context) error
	// missing are includes that no declared file answers, for the hint of a
	// failed compile.
	missing []string

	id     action.Digest // identity within the plan, see Plan.add
	index  int           // position in Plan.actions
	users  []*Action     // reverse of Deps
	weight float64       // cost of the longest chain from here to the end
}

// input is one file of an action's tree: a file of the kernel, generated
// text, or the output of another action.
type input struct {
	path   string
	digest action.Digest
	from   *Action
	output string
}

// Key is the digest of the action's REAPI message when it does not depend on
// the outputs of another action; ok is false otherwise.
func (a *Action) Key() (key action.Digest, ok bool) {
	return a.id, !slices.ContainsFunc(a.inputs, func(in input) bool { return in.from != nil })
}

// Outputs are the files that the action makes.
func (a *Action) Outputs() []string { return slices.Clone(a.outputs) }

// spec fills in the digests of other actions' outputs.
func (a *Action) spec(resolve func(in input) (action.Digest, error)) (*action.Spec, error) {
	s := &action.Spec{Label: a.Label, Args: a.args, Env: a.env, Outputs: a.outputs, Platform: a.platform,
		Inputs: make([]action.File, 0, len(a.inputs))}
	for _, in := range a.inputs {
		d := in.digest
		if in.from != nil {
			var err error
			if d, err = resolve(in); err != nil {
				return nil, fmt.Errorf("%s: %w", a.Label, err)
			}
		}
		s.Inputs = append(s.Inputs, action.File{Path: in.path, Digest: d})
	}
	return s, nil
}

// identify gives an action the digest by which equal ones are found: its key,
// with the identity of the making action in place of each digest that is not
// known yet.
func (a *Action) identify() error {
	s, err := a.spec(func(in input) (action.Digest, error) {
		return action.DigestOf([]byte(in.from.id.String() + "\x00" + in.output)), nil
	})
	if err != nil {
		return err
	}
	a.id, err = s.Key()
	return err
}

// baseEnv is the environment of every action, the tool's own added to it.
func baseEnv(tool map[string]string) map[string]string {
	env := map[string]string{
		"LC_ALL": "C",
		"TZ":     "UTC",
		// What __DATE__ and archive members read; see stageTime in package local.
		"SOURCE_DATE_EPOCH": "946684800",
	}
	maps.Copy(env, tool)
	return env
}
