package isa

import (
	"context"
	"slices"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// named finds symbols by their names.
type named interface {
	// dataNamed finds data.
	dataNamed(name string) (dataSym, bool)
	// functionsNamed returns what gives the name of a function if it is one of
	// names, and may give other names or none for others.
	functionsNamed(names []string) func(*function) string
}

// declare applies what the caller names as guards and dispatchers. In a
// stripped library they are found by their bodies in the objects that it was
// linked from. What is named and nowhere to be found comes back.
func (im *image) declare(ctx context.Context, s *rule.Subject, o *rule.Options, by named) (missing []string, err error) {
	if len(o.Guards)+len(o.Dispatchers) == 0 {
		return nil, nil
	}
	found := map[string]bool{}
	for _, g := range o.Guards {
		if d, ok := by.dataNamed(g); ok {
			im.state = append(im.state, d)
			found[g] = true
		}
	}
	bodies := map[bodyHash]string{}
	if s.Role == rule.Linked && s.Link != nil {
		set, err := members(ctx, s.Link, o.Strict)
		if err != nil {
			return nil, err
		}
		for _, m := range set {
			if m.err != nil || m.o == nil {
				continue
			}
			for i := range m.o.fns {
				name := m.o.name(&m.o.fns[i])
				if !slices.Contains(o.Guards, name) && !slices.Contains(o.Dispatchers, name) {
					continue
				}
				if h, ok := m.o.hash(i); ok {
					bodies[h] = name
				}
			}
		}
	}
	nameOf := by.functionsNamed(slices.Concat(o.Guards, o.Dispatchers))
	for i := range im.fns {
		f := &im.fns[i]
		name := nameOf(f)
		if f.sym < 0 && len(bodies) > 0 {
			if h, ok := im.hash(i); ok {
				name = bodies[h]
			}
		}
		f.guard = name != "" && slices.Contains(o.Guards, name)
		f.trusted = name != "" && slices.Contains(o.Dispatchers, name)
		found[name] = found[name] || f.guard || f.trusted
	}
	for _, name := range im.imports {
		found[name] = true
	}
	for _, name := range im.slots.names {
		found[name] = true
	}
	for _, name := range slices.Concat(o.Guards, o.Dispatchers) {
		if !found[name] {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// asks reports whether an imported function answers what the CPU can do.
func (im *image) asks(name string) bool { return guardCall(name) || slices.Contains(im.guards, name) }

// holds reports whether imported data holds what the CPU can do.
func (im *image) holds(name string) bool { return stateName(name) || slices.Contains(im.guards, name) }
