package compile

import (
	"context"
	"fmt"
	"slices"

	"github.com/thox-ai/thoxbuild/compile/action"
	"github.com/thox-ai/thoxbuild/compile/glue"
	"github.com/thox-ai/thoxbuild/compile/relink"
)

// libraryOut is where a link writes.
const libraryOut = "out.so"

// linkVariant plans what follows the objects: the isolation of ISA units, the
// checks and the link.
func (p *Plan) linkVariant(vp *variantPlan, ts *Toolset, us []*unit, objects []*Action, late bool) error {
	var parts []Object
	var inputs []input
	add := func(path string, a *Action, o Object) {
		o.Path = path
		o.Label = a.Label
		parts = append(parts, o)
		inputs = append(inputs, input{path: path, from: a, output: objectOut})
	}
	for _, group := range groupUnits(us, objects) {
		if !group.isolate {
			for i, u := range group.units {
				add(u.object(), group.objects[i], u.describe())
			}
			continue
		}
		a, err := p.isolate(vp, ts, group)
		if err != nil {
			return err
		}
		add("obj/"+group.section+".o", a, group.units[0].describe())
	}
	if late {
		a, err := p.nameUnit(vp.variant, ts, vp.ops)
		if err != nil {
			return err
		}
		add("obj/name.o", a, Object{Role: RoleName})
	}
	var before []*Action
	if p.cfg.Check != nil {
		a, err := p.checkObjects(vp, parts, inputs)
		if err != nil {
			return err
		}
		before = []*Action{a}
		vp.checks = []*Action{a}
	}
	args := slices.Clone(ts.Link.Args)
	args = append(args, "-o", libraryOut)
	for _, in := range inputs {
		args = append(args, in.path)
	}
	args = append(args, ts.Link.After...)
	var err error
	vp.library, err = p.add(&Action{
		Kind:     KindLink,
		Label:    "link " + vp.name,
		Deps:     before,
		args:     args,
		env:      baseEnv(ts.Link.Env),
		outputs:  []string{libraryOut},
		platform: platformOf(vp.variant, ts.Link.Tool),
		inputs:   inputs,
		ready:    ts.Link.Ready,
		early:    ts.Link.Early,
	}, vp.name)
	if err != nil {
		return err
	}
	vp.last = []*Action{vp.library}
	if p.cfg.Check != nil {
		a, err := p.checkLibrary(vp, parts, inputs)
		if err != nil {
			return err
		}
		vp.checks = append(vp.checks, a)
		vp.last = append(vp.last, a)
	}
	if err := p.readDevices(vp); err != nil {
		return err
	}
	vp.addText("_ops.py", glue.OpsPy(vp.ops))
	vp.metadata = p.metadata(vp)
	return nil
}

// unitGroup is the units of one section that become one object, or the units
// that stay as they are.
type unitGroup struct {
	section string
	isolate bool
	units   []*unit
	objects []*Action
}

// groupUnits puts the units of each isolated section together. The order of
// the manifest stays.
func groupUnits(us []*unit, objects []*Action) []unitGroup {
	var groups []unitGroup
	for i, u := range us {
		n := len(groups) - 1
		if n < 0 || groups[n].section != u.section {
			groups = append(groups, unitGroup{section: u.section, isolate: u.isolate})
			n++
		}
		groups[n].units = append(groups[n].units, u)
		groups[n].objects = append(groups[n].objects, objects[i])
	}
	return groups
}

// describe is what a Checker learns of a unit's object.
func (u *unit) describe() Object {
	return Object{Role: u.role(), Section: u.section, Source: u.src, Flags: u.flags, Entries: u.isaEntry, Isolated: u.isolate}
}

// isolate plans the steps that leave an ISA unit with no symbol but its
// entries: with more than one source its objects are merged first, so that
// they still find each other.
func (p *Plan) isolate(vp *variantPlan, ts *Toolset, g unitGroup) (*Action, error) {
	entries := g.units[0].isaEntry
	if len(entries) == 0 {
		return nil, fmt.Errorf("section %q is to be isolated and names no entries; without one nothing could call it", g.section)
	}
	merged, out := g.objects[0], objectOut
	if len(g.objects) > 1 {
		if ts.Relocate == nil {
			return nil, fmt.Errorf("section %q: no linker to merge its %d objects with", g.section, len(g.objects))
		}
		merge := &Action{
			Kind:     KindIsolate,
			Label:    fmt.Sprintf("merge %s (%s)", g.section, vp.variant.Platform.Arch),
			args:     append(slices.Clone(ts.Relocate.Args), "-r", "-o", objectOut),
			env:      baseEnv(ts.Relocate.Env),
			outputs:  []string{objectOut},
			platform: platformOf(vp.variant, *ts.Relocate),
		}
		for i, u := range g.units {
			merge.inputs = append(merge.inputs, input{path: u.object(), from: g.objects[i], output: objectOut})
			merge.args = append(merge.args, u.object())
		}
		var err error
		if merged, err = p.add(merge, vp.name); err != nil {
			return nil, err
		}
	}
	return p.add(&Action{
		Kind:     KindIsolate,
		Label:    fmt.Sprintf("isolate %s (%s)", g.section, vp.variant.Platform.Arch),
		args:     append([]string{"thoxbuild", "isolate"}, entries...),
		outputs:  []string{objectOut},
		platform: map[string]string{"thoxbuild": "isolate 1"},
		inputs:   []input{{path: "in.o", from: merged, output: out}},
		inProcess: func(ctx context.Context, s *stepEnv) (*action.Result, error) {
			b, err := s.read("in.o")
			if err != nil {
				return nil, err
			}
			if b, err = relink.Isolate(b, entries); err != nil {
				return nil, fmt.Errorf("section %q: %w", g.section, err)
			}
			return s.write(objectOut, b)
		},
	}, vp.name)
}
