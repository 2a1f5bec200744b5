package action

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Line is one fact that an action's key depends on.
type Line struct {
	// Label is unique within an action, such as "input csrc/norm.cpp".
	Label string
	Value string
}

// String prints "label: value" with the value quoted.
func (l Line) String() string { return l.Label + ": " + strconv.Quote(l.Value) }

// Explain lists everything that the key depends on, in a fixed order: the
// command, the environment, the outputs, the tools, the input files.
func (s *Spec) Explain() []Line {
	var lines []Line
	add := func(label, value string) { lines = append(lines, Line{label, value}) }
	for i, a := range s.Args {
		add(fmt.Sprintf("arg %d", i), a)
	}
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		add("env "+k, s.Env[k])
	}
	for i, o := range slices.Sorted(slices.Values(s.Outputs)) {
		add(fmt.Sprintf("output %d", i), o)
	}
	for _, k := range slices.Sorted(maps.Keys(s.Platform)) {
		add("platform "+k, s.Platform[k])
	}
	inputs := slices.SortedFunc(slices.Values(s.Inputs), func(a, b File) int {
		if a.Path < b.Path {
			return -1
		}
		return 1
	})
	for _, f := range inputs {
		value := f.Digest.String()
		if f.Exec {
			value += " executable"
		}
		add("input "+f.Path, value)
	}
	add("salt", string(salt))
	return lines
}

// Change is one difference between two actions. Old or New is empty where the
// line exists on one side only; Added and Removed tell that from an empty
// value.
type Change struct {
	Label          string
	Old, New       string
	Added, Removed bool
}

// String prints the change as a person would say it.
func (c Change) String() string {
	switch {
	case c.Added:
		return fmt.Sprintf("+ %s: %q", c.Label, c.New)
	case c.Removed:
		return fmt.Sprintf("- %s: %q", c.Label, c.Old)
	default:
		return fmt.Sprintf("~ %s: %q -> %q", c.Label, c.Old, c.New)
	}
}

// Diff lists what changed from old to new: first what new has, in its order,
// then what only old had. Arguments are compared as a list, so that one more
// flag does not show every later one as changed.
func Diff(old, new []Line) []Change {
	var changes []Change
	oldArgs, oldRest := splitArgs(old)
	newArgs, newRest := splitArgs(new)
	changes = append(changes, diffArgs(oldArgs, newArgs)...)
	before := map[string]string{}
	for _, l := range oldRest {
		before[l.Label] = l.Value
	}
	for _, l := range newRest {
		v, ok := before[l.Label]
		switch {
		case !ok:
			changes = append(changes, Change{Label: l.Label, New: l.Value, Added: true})
		case v != l.Value:
			changes = append(changes, Change{Label: l.Label, Old: v, New: l.Value})
		}
		delete(before, l.Label)
	}
	for _, l := range oldRest {
		if _, left := before[l.Label]; left {
			changes = append(changes, Change{Label: l.Label, Old: l.Value, Removed: true})
		}
	}
	return changes
}

func splitArgs(lines []Line) (args []string, rest []Line) {
	for _, l := range lines {
		if len(l.Label) > 4 && l.Label[:4] == "arg " {
			args = append(args, l.Value)
		} else {
			rest = append(rest, l)
		}
	}
	return args, rest
}

// diffArgs compares two argument lists after their common head and tail.
func diffArgs(old, new []string) []Change {
	head := 0
	for head < len(old) && head < len(new) && old[head] == new[head] {
		head++
	}
	tail := 0
	for tail < len(old)-head && tail < len(new)-head && old[len(old)-1-tail] == new[len(new)-1-tail] {
		tail++
	}
	var changes []Change
	for _, a := range old[head : len(old)-tail] {
		changes = append(changes, Change{Label: "arg", Old: a, Removed: true})
	}
	for _, a := range new[head : len(new)-tail] {
		changes = append(changes, Change{Label: "arg", New: a, Added: true})
	}
	return changes
}
