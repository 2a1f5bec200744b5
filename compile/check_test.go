package compile

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/matrix"
)

// checker records what it is shown and fails libraries on request.
type checker struct {
	rules     string
	objects   []Object
	libraries []Library
	failLib   bool
}

func (c *checker) Rules(matrix.Variant) string { return c.rules }

func (c *checker) CheckObjects(_ context.Context, _ matrix.Variant, os []Object) (Verdict, error) {
	c.objects = append(c.objects, os...)
	return Verdict{Text: "note: objects look odd", Report: []byte("[]")}, nil
}

func (c *checker) CheckLibrary(_ context.Context, _ matrix.Variant, l Library) (Verdict, error) {
	c.libraries = append(c.libraries, l)
	return Verdict{Failed: c.failLib, Text: "glibc too new", Report: []byte("[1]")}, nil
}

func TestChecksRunOncePerContent(t *testing.T) {
	b := newBench(t, t.TempDir())
	c := &checker{rules: "1"}
	b.check = c
	b.opts.Jobs = 1
	b.mustRun(cpu213)
	roles := map[string]Role{}
	for _, o := range c.objects {
		if _, err := os.ReadFile(o.File); err != nil {
			t.Error(err)
		}
		roles[o.Source] = o.Role
	}
	want := map[string]Role{"torch-ext/torch_binding.cpp": RoleBinding, "cpu/base.cpp": RoleHost, "cpu/wide.cpp": RoleISA, "": RoleName}
	for src, role := range want {
		if roles[src] != role {
			t.Errorf("%q is %q, want %q", src, roles[src], role)
		}
	}
	if len(c.libraries) != 1 || !strings.HasPrefix(c.libraries[0].Ops, "_tiny_kernel_cpu_") {
		t.Errorf("libraries %+v", c.libraries)
	}
	b.mustRun(cpu213)
	if len(c.libraries) != 1 {
		t.Error("a build that changes nothing checked again")
	}
	note := 0
	for _, e := range b.events {
		if e.Result != nil && strings.Contains(string(e.Result.Log), "look odd") {
			note++
		}
	}
	if note != 1 {
		t.Errorf("the note is shown %d times, want 1", note)
	}
	c.rules = "2"
	b.mustRun(cpu213)
	if len(c.libraries) != 2 || len(b.ran()) != 2 {
		t.Errorf("new rules: %d checks, ran %q", len(c.libraries), b.ran())
	}
}

func TestFailedCheckStopsTheVariant(t *testing.T) {
	b := newBench(t, t.TempDir())
	c := &checker{rules: "1", failLib: true}
	b.check = c
	res, err := b.run(cpu213)
	var ce *CheckError
	if !errors.As(err, &ce) || ce.Variant != cpu213 || string(ce.Verdict.Report) != "[1]" {
		t.Fatalf("%v", err)
	}
	if _, err := os.Stat(res.Variants[0].Dir); err == nil {
		t.Error("a variant that failed its check has a folder")
	}
	c.failLib = false // a verdict that fails is not kept
	b.mustRun(cpu213)
}

func TestIsolatedSections(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.work = &manifests.Workspace{ISA: map[string]map[string]manifests.ISAUnit{
		"tiny-kernel": {"wide": {Entries: []string{"twice_wide"}, Isolate: true}},
	}}
	p := b.plan(cpu213, cpu211)
	var isolate, link *Action
	for _, a := range p.Actions() {
		switch {
		case a.Label == "isolate wide (x86_64)":
			isolate = a
		case a.Label == "link "+cpu213:
			link = a
		}
	}
	if isolate == nil || len(isolate.Variants) != 2 || !slices.Contains(isolate.args, "twice_wide") {
		t.Fatalf("isolate: %+v", isolate)
	}
	if !slices.Contains(link.args, "obj/wide.o") || slices.Contains(link.args, "obj/wide/cpu/wide.cpp.o") {
		t.Errorf("the link reads %q", link.args)
	}
	// Text is no object: the step says which section it was about.
	if _, err := b.run(cpu213); err == nil || !strings.Contains(err.Error(), `section "wide": isolate: expected a 64-bit`) {
		t.Errorf("%v", err)
	}
	b.work.ISA["tiny-kernel"]["wide"] = manifests.ISAUnit{Isolate: true}
	if _, err := b.tryPlan(cpu213); err == nil || !strings.Contains(err.Error(), "names no entries") {
		t.Errorf("%v", err)
	}
}

func TestExplainAndSurvey(t *testing.T) {
	b := newBench(t, t.TempDir())
	h := OpenHistory(b.cache.Dir(), b.kernel.Dir)
	b.opts.History = h
	p := b.plan(cpu213)
	if s := p.Survey(b.cache); s.Cached != 0 || len(s.Missing) != s.Total || s.CriticalPath <= 0 || s.Seconds < s.CriticalPath {
		t.Errorf("%+v", s)
	}
	b.mustRun(cpu213)
	if err := h.Save(); err != nil {
		t.Fatal(err)
	}
	if s := b.plan(cpu213).Survey(b.cache); s.Cached != s.Total {
		t.Errorf("%+v", s)
	}
	h = OpenHistory(b.cache.Dir(), b.kernel.Dir)
	if len(h.Costs()) != len(p.Actions()) {
		t.Errorf("%d costs for %d actions", len(h.Costs()), len(p.Actions()))
	}
	b.edit("csrc/base_only.h", "once", "once // new")
	p = b.plan(cpu213)
	found := p.Find("cpu/base.cpp")
	if len(found) != 1 {
		t.Fatalf("found %v", found)
	}
	e, err := p.Explain(found[0], b.cache, h)
	if err != nil || !e.Known || e.Cached || !e.Seen || len(e.Changes) != 1 || e.Changes[0].Label != "input csrc/base_only.h" {
		t.Errorf("%+v %v", e, err)
	}
	link := p.Find("link " + cpu213)[0]
	if e, err := p.Explain(link, b.cache, h); err != nil || e.Known {
		t.Errorf("the link's inputs are not made yet: %+v %v", e, err)
	}
}
