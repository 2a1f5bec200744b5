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
type checker struct {
	dispatch manifests.Dispatch
}

var _ compile.Checker = checker{}

// ruleData changes when a rule or its data does: verdicts are cached under it.
const ruleData = "abicheck 2"

// Rules implements compile.Checker. The program's own version is part of it,
// so a new release checks again.
func (c checker) Rules(v matrix.Variant) string {
	return fmt.Sprintf("%s %s %s %q", ruleData, version(), v.Name, c.dispatch)
}

// CheckObjects implements compile.Checker.
func (c checker) CheckObjects(ctx context.Context, v matrix.Variant, objects []compile.Object) (compile.Verdict, error) {
	list, labels := declared(objects)
	r, err := abicheck.CheckObjects(ctx, list, c.options(v))
	if err != nil {
		return compile.Verdict{}, err
	}
	return verdict(r, labels)
}

// CheckLibrary implements compile.Checker.
func (c checker) CheckLibrary(ctx context.Context, v matrix.Variant, lib compile.Library) (compile.Verdict, error) {
	list, labels := declared(lib.Objects)
	r, err := abicheck.CheckLibrary(ctx, list, lib.File, c.options(v))
	if err != nil {
		return compile.Verdict{}, err
	}
	labels[lib.File] = lib.Ops + ".abi3.so"
	return verdict(r, labels)
}

// declared tells abicheck what the builder knows of the objects. The cache
// names files by digest; people know them by the labels.
func declared(objects []compile.Object) (list []abicheck.Object, labels map[string]string) {
	units := map[string]*abicheck.Unit{}
	labels = map[string]string{}
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
		labels[o.File] = o.Path
	}
	return list, labels
}

// options says what a variant promises.
func (c checker) options(v matrix.Variant) *abicheck.Options {
	o := &abicheck.Options{Manylinux: "manylinux_2_28", PythonABI: manifests.Version{Major: 3, Minor: 9},
		MacOS: v.Compute.MacOS(), Compute: v.Compute, Guards: c.dispatch.Guards, Dispatchers: c.dispatch.Dispatchers}
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
	var pairs []string
	for file, l := range labels {
		pairs = append(pairs, file, l)
	}
	names := strings.NewReplacer(pairs...)
	for i := range r.Findings {
		f := &r.Findings[i]
		f.File, f.Message = names.Replace(f.File), names.Replace(f.Message)
		for k := range f.Detail {
			f.Detail[k] = names.Replace(f.Detail[k])
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
