package compile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/compile/action"
	"github.com/thox-ai/thoxbuild/compile/glue"
	"github.com/thox-ai/thoxbuild/compile/source"
	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/matrix"
)

// uniqueIDLen is how many hex digits of the content digest stand in an
// extension's name. Two builds of one kernel that share them cannot be loaded
// into one process; with 40 bits nobody meets such a pair.
const uniqueIDLen = 10

// planVariant plans everything for one variant.
func (p *Plan) planVariant(t *tree, v matrix.Variant) (*variantPlan, error) {
	k := p.cfg.Kernel
	vp := &variantPlan{variant: v, name: v.Name.String()}
	if p.pythonErr != nil {
		return nil, p.pythonErr
	}
	vp.files = slices.Clip(p.python)
	var err error
	switch {
	case v.Name.Framework == manifests.TorchNoarch:
		return vp, p.nameNoarch(vp)
	case k.Torch == nil:
		return nil, fmt.Errorf("%v: only [torch] and [torch-noarch] kernels can be built so far", k.Pos("tvm-ffi"))
	}
	ts, err := p.cfg.Tools(v)
	if err != nil {
		return nil, err
	}
	vp.tools = ts
	us, err := p.units(t, v)
	if err != nil {
		return nil, err
	}
	if len(us) == 0 {
		return nil, fmt.Errorf("nothing to compile: no section of %s has a source for it", k.File)
	}

	// First as if the name were the placeholder, to learn what everything is
	// made of; where the name is linked in, that is what is compiled.
	late := p.lateName(v, us)
	first := p
	if !late {
		first = &Plan{cfg: p.cfg, byID: map[action.Digest]*Action{}, files: map[action.Digest]string{}, blobs: p.blobs}
	}
	objects, err := first.compileAll(t, v, ts, us, glue.Placeholder)
	if err != nil {
		return nil, err
	}
	uniqueID := p.uniqueID(vp, ts, us, objects)
	if vp.ops, err = manifests.ExtensionName(k.General.Name, v.Compute.Backend, uniqueID); err != nil {
		return nil, err
	}
	if !late {
		// Then under the name that follows from it.
		if objects, err = p.compileAll(t, v, ts, us, vp.ops); err != nil {
			return nil, err
		}
	}
	return vp, p.linkVariant(vp, ts, us, objects, late)
}

// compileAll plans the objects of all units under one extension name.
func (p *Plan) compileAll(t *tree, v matrix.Variant, ts *Toolset, us []*unit, ops string) ([]*Action, error) {
	header, err := p.metalHeader(t, v, ts, ops)
	if err != nil {
		return nil, err
	}
	objects := make([]*Action, len(us))
	for i, u := range us {
		u.extra = nil
		if header != nil && (u.kind == source.ObjCXX || u.kind == source.ObjC) {
			u.extra = []input{{path: header.outputs[0], from: header, output: header.outputs[0]}}
		}
		if objects[i], err = p.compileUnit(t, v, ts, u, ops); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// lateName reports whether the variant's name can be linked in: every unit
// that uses it does so through registration.h alone. Metal sources put it into
// a header's name.
func (p *Plan) lateName(v matrix.Variant, us []*unit) bool {
	for _, u := range us {
		if u.reads.Name == source.NameFree {
			return false
		}
	}
	return len(p.metalSources(v)) == 0
}

// uniqueID is a digest over everything that goes into a variant: equal
// sources, tools and settings give equal names on every machine, and two
// builds that differ in any way never share one, commits or not.
func (p *Plan) uniqueID(vp *variantPlan, ts *Toolset, us []*unit, objects []*Action) string {
	var b strings.Builder
	line := func(label string, values ...string) { fmt.Fprintf(&b, "%s %q\n", label, values) }
	line("variant", vp.name)
	line("kernel", p.cfg.Kernel.General.Name, fmt.Sprint(p.cfg.Kernel.General.Version))
	for i, u := range us {
		line("unit", u.section, u.src, objects[i].id.String(), fmt.Sprint(u.isolate), strings.Join(u.isaEntry, ","))
	}
	if ts != nil {
		line("link", append(slices.Clone(ts.Link.Args), ts.Link.After...)...)
		for _, l := range (&action.Spec{Platform: platformOf(vp.variant, ts.Link.Tool)}).Explain() {
			line("link", l.String())
		}
	}
	for _, f := range vp.files {
		line("file", f.path, f.digest.String())
	}
	return action.DigestOf([]byte(b.String())).Hex()[:uniqueIDLen]
}

// nameNoarch finishes a variant that holds Python only.
func (p *Plan) nameNoarch(vp *variantPlan) error {
	k := p.cfg.Kernel
	id := p.uniqueID(vp, nil, nil, nil)
	backend := vp.variant.Compute.Backend
	if backend == "" {
		backend = manifests.CPU
	}
	ops, err := manifests.ExtensionName(k.General.Name, backend, id)
	if err != nil {
		return err
	}
	vp.ops = ops
	vp.addText("_ops.py", glue.NoarchOpsPy(k.PythonName(), id))
	vp.metadata = p.metadata(vp)
	return nil
}
