package compile

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/thox-ai/thoxbuild/compile/action"
	"github.com/thox-ai/thoxbuild/compile/source"
	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/matrix"
)

// Config is what a plan is made from.
type Config struct {
	Kernel *manifests.Kernel
	// Workspace may be nil.
	Workspace *manifests.Workspace
	// Variants are the builds to make, all of Kernel.
	Variants []matrix.Variant
	Tools    Tools
	// OutDir receives a folder for each variant. The default is "build" in the
	// kernel's folder.
	OutDir string
	// Index remembers digests of files between builds; nil reads every file.
	Index *source.Index
	// Builder is the free text about this program in the provenance, such as
	// "thoxbuild 0.1".
	Builder string
	// Commit is called when the sources have been read, so that an edit after
	// that makes them dirty and no commit gets other sources. It may be nil.
	Commit func() CommitOf
	// Check adds a step for a Checker before and after each link.
	Check Checker
	// Devices lists the devices that a linked CUDA library holds code for, as
	// metadata.json spells them ("9.0a", "12.0+PTX"). Nil leaves the list to
	// the plan.
	Devices func(library string) ([]string, error)
	// Costs gives the run times of earlier builds in seconds, by label. It may
	// be nil, and is asked only when something has to run.
	Costs func() map[string]float64
}

// Plan is a graph of actions and the variants that it leads to. It changes no
// file; Run does.
type Plan struct {
	cfg      Config
	actions  []*Action
	byID     map[action.Digest]*Action
	variants []*variantPlan
	// files is where the bytes of each input are: a file of the kernel.
	files map[action.Digest]string
	// blobs are generated inputs.
	blobs map[action.Digest][]byte
	// sources are all files of the kernel that go into some variant.
	sources map[string]bool
	commit  *manifests.Commit
	// python is the kernel's Python package, the same in every variant.
	python    []packageFile
	pythonErr error
}

// variantPlan is how one variant's folder is put together.
type variantPlan struct {
	variant matrix.Variant
	name    string
	ops     string
	tools   *Toolset // nil for a variant without compiled code
	// library is the link, nil for a variant without compiled code; checks
	// look at its objects and its result.
	library *Action
	checks  []*Action
	// devices is what reads the devices out of a CUDA library; it may be nil.
	devices *Action
	// last is what has to end before the folder is assembled.
	last     []*Action
	files    []packageFile
	texts    [][]byte // bytes of the generated files
	metadata manifests.Metadata
}

// NewPlan reads the kernel's sources and plans every variant. All problems of
// the kernel are found in one run; the error is then of type
// manifests.Problems.
func NewPlan(cfg Config) (*Plan, error) {
	if cfg.OutDir == "" {
		cfg.OutDir = filepath.Join(cfg.Kernel.Dir, "build")
	}
	if cfg.Index == nil {
		cfg.Index = source.OpenIndex("")
	}
	p := &Plan{
		cfg:   cfg,
		byID:  map[action.Digest]*Action{},
		files: map[action.Digest]string{},
		blobs: map[action.Digest][]byte{},

		sources: map[string]bool{},
	}
	tree, err := p.readTree()
	if err != nil {
		return nil, err
	}
	p.python, p.pythonErr = p.packageFiles()
	var commitOf CommitOf
	if cfg.Commit != nil {
		commitOf = cfg.Commit()
	}
	var errs []error
	seen := map[string]bool{}
	for _, v := range cfg.Variants {
		name := v.Name.String()
		if seen[name] {
			continue
		}
		seen[name] = true
		vp, err := p.planVariant(tree, v)
		if err != nil {
			errs = append(errs, fmt.Errorf("plan %s: %w", name, err))
			continue
		}
		p.variants = append(p.variants, vp)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if commitOf != nil {
		p.commit = commitOf(p.Sources())
	}
	return p, nil
}

// Actions returns every action, each after those that it depends on.
func (p *Plan) Actions() []*Action { return slices.Clone(p.actions) }

// add puts an action into the graph, or returns the equal one that is there
// already and adds the variant to those that wait for it.
func (p *Plan) add(a *Action, variant string) (*Action, error) {
	for _, in := range a.inputs {
		if in.from != nil && !slices.Contains(a.Deps, in.from) {
			a.Deps = append(a.Deps, in.from)
		}
	}
	if err := a.identify(); err != nil {
		return nil, err
	}
	if old := p.byID[a.id]; old != nil {
		a = old
	} else {
		a.index = len(p.actions)
		p.actions = append(p.actions, a)
		p.byID[a.id] = a
		for _, d := range a.Deps {
			d.users = append(d.users, a)
		}
	}
	if !slices.Contains(a.Variants, variant) {
		a.Variants = append(a.Variants, variant)
	}
	return a, nil
}

// defaultCost is a guess for actions that were never run, in seconds.
var defaultCost = map[Kind]float64{
	KindCompile: 6, KindDevice: 20, KindConvert: 1, KindIsolate: 0.05, KindMetal: 5, KindCheck: 0.2, KindLink: 0.5,
}

// weigh gives each action its cost and the length of the longest chain that
// waits for it, so that the scheduler starts the critical path first. An action
// whose result is known adds nothing to a chain.
func (p *Plan) weigh(results []*action.Result) {
	var costs map[string]float64
	if p.cfg.Costs != nil {
		costs = p.cfg.Costs()
	}
	for _, a := range slices.Backward(p.actions) {
		a.Cost = defaultCost[a.Kind]
		if c, ok := costs[a.Label]; ok {
			a.Cost = c
		}
		a.weight = 0
		for _, u := range a.users {
			a.weight = max(a.weight, u.weight)
		}
		if results[a.index] == nil {
			a.weight += a.Cost
		}
	}
}

// Sources lists the files of the kernel that the plan reads, as absolute
// paths, sorted.
func (p *Plan) Sources() []string { return slices.Sorted(maps.Keys(p.sources)) }

// file makes an input of a kernel file.
func (p *Plan) file(rel string, d action.Digest) input {
	p.files[d] = filepath.Join(p.cfg.Kernel.Dir, filepath.FromSlash(rel))
	return input{path: rel, digest: d}
}

// generated makes an input of text that is nowhere on disk.
func (p *Plan) generated(rel string, text []byte) input {
	d := action.DigestOf(text)
	p.blobs[d] = text
	return input{path: rel, digest: d}
}

// platformOf says where an action can run and names the tools that it runs.
func platformOf(v matrix.Variant, tools ...Tool) map[string]string {
	m := map[string]string{"OSFamily": "linux"}
	if v.Platform.OS == manifests.Darwin {
		m["OSFamily"] = "macos" // Xcode's compilers run nowhere else
	}
	for _, t := range tools {
		maps.Copy(m, t.Fingerprints)
	}
	return m
}

// open gives the bytes of an input that the plan itself knows.
func (p *Plan) open(d action.Digest) (io.ReadCloser, error) {
	if b, ok := p.blobs[d]; ok {
		return io.NopCloser(bytesReader(b)), nil
	}
	if name, ok := p.files[d]; ok {
		return os.Open(name)
	}
	return nil, errUnknownBlob
}
