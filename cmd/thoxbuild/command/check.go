package command

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck"
	"github.com/thox-ai/thoxbuild/abicheck/report"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
	"github.com/thox-ai/thoxbuild/compile"
	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/matrix"
)

// checker plugs abicheck into a build: object rules before the link, facts of
// the library after it.
type checker struct{}

var _ compile.Checker = checker{}

// ruleData changes when a rule or its data does: verdicts are cached under it.
const ruleData = "abicheck 2"

// Rules implements compile.Checker. The program's own version is part of it,
// so a new release checks again.
func (checker) Rules(v matrix.Variant) string {
	return fmt.Sprintf("%s %s %s", ruleData, version(), v.Name)
}

// CheckObjects implements compile.Checker.
func (c checker) CheckObjects(ctx context.Context, v matrix.Variant, objects []compile.Object) (compile.Verdict, error) {
	var list []abicheck.Object
	units := map[string]*abicheck.Unit{}
	for _, o := range objects {
		obj := abicheck.Object{Path: o.File}
		if o.Role == compile.RoleISA {
			u := units[o.Section]
			if u == nil {
				u = &abicheck.Unit{Name: o.Section, Features: features(o.Flags), Entries: o.Entries, Isolate: o.Isolated}
				units[o.Section] = u
			}
			obj.Unit = u
		}
		list = append(list, obj)
	}
	r, err := abicheck.CheckLink(ctx, list, "", options(v))
	if err != nil {
		return compile.Verdict{}, err
	}
	// The cache names files by digest; people know them by source.
	labels := map[string]string{}
	for _, o := range objects {
		labels[o.File] = o.Path
	}
	return verdict(r, labels)
}

// CheckLibrary implements compile.Checker.
func (c checker) CheckLibrary(ctx context.Context, v matrix.Variant, lib compile.Library) (compile.Verdict, error) {
	r, err := abicheck.CheckLink(ctx, nil, lib.File, options(v))
	if err != nil {
		return compile.Verdict{}, err
	}
	return verdict(r, map[string]string{lib.File: lib.Ops + ".abi3.so"})
}

// options says what a variant promises.
func options(v matrix.Variant) *abicheck.Options {
	o := &abicheck.Options{Manylinux: "manylinux_2_28", PythonABI: manifests.Version{Major: 3, Minor: 9},
		MacOS: v.Compute.MacOS(), Compute: v.Compute}
	switch v.Name.Framework {
	case manifests.Torch:
		t := v.Name.Version
		o.Torch = &t
	case manifests.TorchStableABI:
		t, floor := v.Torch, v.Name.Version
		o.Torch, o.StableABI = &t, &floor
	}
	return o
}

// features are what -m flags enable, as compilers spell them.
func features(flags []string) []string {
	var out []string
	for _, f := range flags {
		if name, ok := strings.CutPrefix(f, "-m"); ok && !strings.HasPrefix(name, "no-") {
			out = append(out, name)
		}
	}
	return out
}

func verdict(r *abicheck.Report, labels map[string]string) (compile.Verdict, error) {
	for i := range r.Findings {
		if l, ok := labels[r.Findings[i].File]; ok {
			r.Findings[i].File = l
		}
	}
	for i := range r.Files {
		if l, ok := labels[r.Files[i].File]; ok {
			r.Files[i].File = l
		}
	}
	var text, data bytes.Buffer
	if r.Count(rule.Error)+r.Count(rule.Warning) > 0 {
		if err := r.Text(&text, report.TextOptions{}); err != nil {
			return compile.Verdict{}, err
		}
	}
	if err := r.JSON(&data); err != nil {
		return compile.Verdict{}, err
	}
	return compile.Verdict{Failed: r.Failed(), Text: text.String(), Report: data.Bytes()}, nil
}
