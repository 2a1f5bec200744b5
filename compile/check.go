package compile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/thox-ai/thoxbuild/compile/action"
	"github.com/thox-ai/thoxbuild/matrix"
)

// Checker judges what a build makes. compile declares it and knows no rule
// itself; whoever runs the build plugs the rules in.
//
// A verdict that passes is cached under the digests of the files it is about
// and the text that Rules returns, so a build that changes nothing checks
// nothing.
type Checker interface {
	// Rules identifies the rules and the data that they use for a variant.
	// Whatever could change a verdict has to change it.
	Rules(v matrix.Variant) string
	// CheckObjects looks at everything that is about to be linked.
	CheckObjects(ctx context.Context, v matrix.Variant, objects []Object) (Verdict, error)
	// CheckLibrary looks at the linked library.
	CheckLibrary(ctx context.Context, v matrix.Variant, lib Library) (Verdict, error)
}

// Role says what an object is to the library.
type Role string

// The roles of objects.
const (
	// RoleBinding registers the operators; it may use torch.
	RoleBinding Role = "binding"
	// RoleHost is other host code.
	RoleHost Role = "host"
	// RoleISA is code for processors with more than the baseline's
	// instructions: what it shares with other objects by name may run
	// anywhere, so only its entries may be visible.
	RoleISA Role = "isa"
	// RoleDevice holds device code and the host code that launches it.
	RoleDevice Role = "device"
	// RoleName is the generated unit with the extension's name.
	RoleName Role = "name"
)

// Object is one object file of a link.
type Object struct {
	Label   string
	Role    Role
	Section string
	Source  string
	// Flags are the manifest's flags for it.
	Flags []string
	// Entries are the symbols that an ISA unit declares; Isolated says that
	// all others were made local.
	Entries  []string
	Isolated bool
	// Path is its place in the link's tree; File is where to read it.
	Path string
	File string `json:"-"`
}

// Library is a linked library.
type Library struct {
	// Ops is the name of the extension, OPS_NAME.
	Ops string
	// File is where to read it; it is read-only.
	File string
	// Objects are what it was linked from, in order.
	Objects []Object
}

// Verdict is what a Checker found.
type Verdict struct {
	// Failed stops the variant.
	Failed bool
	// Text is shown to the person; it may be empty.
	Text string
	// Report is what a program would read, in a format of the Checker's own.
	Report []byte
}

// CheckError is the error of a variant that a check stopped.
type CheckError struct {
	Variant string
	Verdict Verdict
}

// Error implements error.
func (e *CheckError) Error() string {
	return fmt.Sprintf("%s: the checks found errors\n%s", e.Variant, e.Verdict.Text)
}

// reportOut is where a check's report is kept.
const reportOut = "report.json"

// checkObjects plans the check before a link.
func (p *Plan) checkObjects(vp *variantPlan, objects []Object, inputs []input) (*Action, error) {
	facts, err := json.Marshal(objects)
	if err != nil {
		return nil, err
	}
	return p.addCheck(vp, "objects", string(facts), inputs, func(ctx context.Context, s *stepEnv) (Verdict, error) {
		with, err := s.located(objects)
		if err != nil {
			return Verdict{}, err
		}
		return p.cfg.Check.CheckObjects(ctx, vp.variant, with)
	})
}

// located fills in where the objects are.
func (s *stepEnv) located(objects []Object) ([]Object, error) {
	with := slices.Clone(objects)
	for i := range with {
		var err error
		if with[i].File, err = s.path(with[i].Path); err != nil {
			return nil, err
		}
	}
	return with, nil
}

// checkLibrary plans the check after a link.
func (p *Plan) checkLibrary(vp *variantPlan, objects []Object, inputs []input) (*Action, error) {
	facts, err := json.Marshal(Library{Ops: vp.ops, Objects: objects})
	if err != nil {
		return nil, err
	}
	in := append([]input{{path: "lib.so", from: vp.library, output: libraryOut}}, inputs...)
	return p.addCheck(vp, "library", string(facts), in, func(ctx context.Context, s *stepEnv) (Verdict, error) {
		file, err := s.path("lib.so")
		if err != nil {
			return Verdict{}, err
		}
		with, err := s.located(objects)
		if err != nil {
			return Verdict{}, err
		}
		return p.cfg.Check.CheckLibrary(ctx, vp.variant, Library{Ops: vp.ops, File: file, Objects: with})
	})
}

func (p *Plan) addCheck(vp *variantPlan, what, facts string, inputs []input, judge func(context.Context, *stepEnv) (Verdict, error)) (*Action, error) {
	return p.add(&Action{
		Kind:     KindCheck,
		Label:    fmt.Sprintf("check the %s of %s", what, vp.name),
		args:     []string{"thoxbuild", "check-" + what, vp.name, facts},
		outputs:  []string{reportOut},
		platform: map[string]string{"rules": p.cfg.Check.Rules(vp.variant)},
		inputs:   inputs,
		inProcess: func(ctx context.Context, s *stepEnv) (*action.Result, error) {
			verdict, err := judge(ctx, s)
			if err != nil {
				return nil, err
			}
			if verdict.Failed {
				return nil, &CheckError{vp.name, verdict}
			}
			res, err := s.write(reportOut, verdict.Report)
			if err == nil {
				res.Log = []byte(verdict.Text)
			}
			return res, err
		},
	}, vp.name)
}
