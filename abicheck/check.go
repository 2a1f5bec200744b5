package abicheck

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/thox-ai/thoxbuild/abicheck/facts"
	"github.com/thox-ai/thoxbuild/abicheck/report"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// Check checks files, archives, wheels, variant folders and trees of them. The
// error is for a path that cannot be read or checked at all, or a cancelled
// context; whatever is wrong inside a file is a finding.
func Check(ctx context.Context, paths []string, o *Options) (*Report, error) {
	var inputs []input
	for _, p := range paths {
		in, err := gather(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("abicheck: %w", err)
		}
		inputs = append(inputs, in...)
	}
	r := newRun(o)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(r.jobs)
	for _, in := range inputs {
		g.Go(func() error { return r.input(gctx, in) })
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("abicheck: %w", err)
	}
	return r.report(), nil
}

// run collects what the workers find.
type run struct {
	o      *Options
	jobs   int
	passes []rule.Pass

	mu       sync.Mutex
	findings []Finding
	files    []report.File
	packages map[*rule.Package]*facts.Interposition
}

func newRun(o *Options) *run {
	if o == nil {
		o = &Options{}
	}
	if o.TorchExports == nil {
		c := *o
		c.TorchExports = shippedExports
		o = &c
	}
	r := &run{o: o, jobs: o.Jobs}
	if r.jobs <= 0 {
		r.jobs = runtime.GOMAXPROCS(0)
	}
	for _, p := range passes() {
		if !p.Slow || !o.FactsOnly {
			r.passes = append(r.passes, p)
		}
	}
	return r
}

// input opens one input and checks everything in it.
func (r *run) input(ctx context.Context, in input) error {
	if in.dir {
		s := &rule.Subject{File: in.path, Dir: in.path, Package: in.pkg}
		s.Want = want(s, in.claim, r.o)
		return r.subject(ctx, s, "variant")
	}
	f, err := openFile(in.path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	return r.binary(ctx, source{
		file: in.path, name: in.path, data: f, size: st.Size(), kind: in.kind, pkg: in.pkg, claim: in.claim,
	})
}

// subject runs every pass on one subject.
func (r *run) subject(ctx context.Context, s *rule.Subject, format string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var found []Finding
	for i := range r.passes {
		p := &r.passes[i]
		fs, err := runPass(ctx, p, s, r.o)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fs = append(fs, formatFinding(s, err))
		}
		found = append(found, fs...)
	}
	r.together(s)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.findings = append(r.findings, found...)
	r.files = append(r.files, fileOf(s, format))
	return nil
}

// runPass calls a pass behind a border: whatever a hostile file makes it do,
// the run goes on.
func runPass(ctx context.Context, p *rule.Pass, s *rule.Subject, o *Options) (fs []Finding, err error) {
	defer func() {
		if v := recover(); v != nil {
			fs, err = nil, fmt.Errorf("the %s rules failed on this file, which is a bug in thoxbuild: %v\n%s", p.Name, v, debug.Stack())
		}
	}()
	return p.Run(ctx, s, o)
}

// together puts a library beside the others of its package. What is wrong
// with the file itself, the passes have said.
func (r *run) together(s *rule.Subject) {
	if s.Package == nil || s.ELF == nil {
		return
	}
	defer func() { _ = recover() }() // as in runPass
	r.mu.Lock()
	p := r.packages[s.Package]
	if p == nil {
		p = &facts.Interposition{}
		if r.packages == nil {
			r.packages = map[*rule.Package]*facts.Interposition{}
		}
		r.packages[s.Package] = p
	}
	r.mu.Unlock()
	_ = p.Add(s)
}

func formatFinding(s *rule.Subject, err error) Finding {
	f := s.Finding("FORMAT", Error, err.Error())
	f.Fix = "download or build the file again"
	return f
}

func fileOf(s *rule.Subject, format string) report.File {
	return report.File{
		File: s.File, Member: s.Member, Format: format, Arch: archName(s), Role: s.Role.String(),
		Claims: s.Want.From, Manylinux: s.Want.Manylinux,
	}
}

// report sorts, filters and completes what was found.
func (r *run) report() *Report {
	found := r.findings
	for _, p := range r.packages {
		found = append(found, p.Findings()...)
	}
	if len(r.o.Only) > 0 {
		found = slices.DeleteFunc(found, func(f Finding) bool { return f.ID != "FORMAT" && !slices.Contains(r.o.Only, f.ID) })
	}
	slices.SortFunc(found, func(a, b Finding) int { return a.Compare(&b) })
	found = slices.CompactFunc(found, func(a, b Finding) bool { return a.Compare(&b) == 0 })
	for i := range found {
		complete(&found[i])
	}
	slices.SortFunc(r.files, report.File.Compare)
	now := r.o.Now
	if now.IsZero() {
		now = time.Now()
	}
	rep := &Report{Files: r.files, Rules: Rules(), Strict: r.o.Strict}
	rep.Findings, rep.Suppressed = report.Suppress(found, r.o.Suppressions, r.ran, now)
	return rep
}

// ran reports whether this run tells all that a rule finds.
func (r *run) ran(id string) bool {
	if len(r.o.Only) > 0 && !slices.Contains(r.o.Only, id) {
		return false
	}
	slow := func(p rule.Pass) bool {
		return p.Slow && slices.ContainsFunc(p.Rules, func(i rule.Info) bool { return i.ID == id })
	}
	return !r.o.FactsOnly || !slices.ContainsFunc(passes(), slow)
}
