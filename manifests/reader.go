package manifests

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// reader turns nodes into typed values and collects every problem on the way.
type reader struct {
	problems  Problems
	positions map[string]Pos
}

func (r *reader) report(p Problem) { r.problems = append(r.problems, p) }

func (r *reader) errorf(n *node, id, hint, format string, args ...any) {
	r.report(Problem{Pos: n.pos, Severity: Error, ID: id, Key: n.path, Message: fmt.Sprintf(format, args...), Hint: hint})
}

func (r *reader) warnf(n *node, id, hint, format string, args ...any) {
	r.report(Problem{Pos: n.pos, Severity: Warning, ID: id, Key: n.path, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// Sort puts the problems, in place, in the order of the file.
func (ps Problems) Sort() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Col, b.Pos.Col))
	})
	return ps
}

// tableReader reads one table. Every key that is asked for is a known key;
// done reports the others.
type tableReader struct {
	*reader
	n     *node
	title string // "[kernel.rms]", or how else a person calls this table
	known []string
	// elsewhere explains keys that are right in another place.
	elsewhere map[string]string
}

// open starts reading n as a table. It returns nil, after a report, when n is
// something else; a nil tableReader answers every question with "absent".
func (r *reader) open(n *node) *tableReader {
	if n == nil {
		return nil
	}
	if n.table == nil {
		r.errorf(n, "build/wrong-type", "", "%s: expected a table, got %s", n.path, n.kind())
		return nil
	}
	title := "[" + n.path + "]"
	if n.path == "" {
		title = "the top level"
	}
	return &tableReader{reader: r, n: n, title: title}
}

// get returns the value of a key or nil, and marks the key as known.
func (t *tableReader) get(key string) *node {
	if t == nil {
		return nil
	}
	t.known = append(t.known, key)
	n := t.n.table.vals[key]
	if n != nil {
		t.positions[n.path] = n.pos
		for _, e := range n.list {
			t.positions[e.path] = e.pos
		}
	}
	return n
}

// missing reports that a required key is absent, at the table's own place.
func (t *tableReader) missing(key, hint string) {
	if t != nil {
		t.errorf(t.n, "build/missing-key", hint, "%s: missing key %q", t.title, key)
	}
}

// done reports the keys that nobody asked for.
func (t *tableReader) done() {
	if t == nil {
		return
	}
	for _, k := range t.n.table.keys {
		if slices.Contains(t.known, k) {
			continue
		}
		n := t.n.table.vals[k]
		what := "key"
		if n.table != nil {
			what = "table"
		}
		hint := t.elsewhere[k]
		if hint == "" {
			hint = didYouMean(k, t.known)
		}
		t.report(Problem{
			Pos: n.key, Severity: Error, ID: "build/unknown-key", Key: n.path, Hint: hint,
			Message: fmt.Sprintf("%s: unknown %s %q; expected %s", t.title, what, k, oneOf(slices.Sorted(slices.Values(t.known)))),
		})
	}
}

func (t *tableReader) text(key string, required bool) string {
	n := t.get(key)
	if n == nil {
		if required {
			t.missing(key, "")
		}
		return ""
	}
	s, ok := t.stringOf(n)
	if ok && strings.TrimSpace(s) == "" {
		t.errorf(n, "build/empty", "", "%s: expected text, got an empty string", n.path)
	}
	return s
}

func (r *reader) stringOf(n *node) (string, bool) {
	s, ok := n.scalar.(string)
	if !ok {
		hint := ""
		if n.list == nil && n.table == nil {
			hint = "put it in quotes"
		}
		r.errorf(n, "build/wrong-type", hint, "%s: expected a string, got %s", n.path, n.kind())
	}
	return s, ok
}

// texts reads an array of strings; nil means that the key is absent.
func (t *tableReader) texts(key string) []string {
	var out []string
	t.each(key, func(s string, _ *node) { out = append(out, s) })
	if out == nil && t != nil && t.n.table.vals[key] != nil {
		out = []string{}
	}
	return out
}

// each reads an array of strings and calls f for every string in it. It
// returns the node of the array, or nil when the key is absent.
func (t *tableReader) each(key string, f func(s string, n *node)) *node {
	n := t.get(key)
	if n == nil {
		return nil
	}
	if n.list == nil {
		hint := ""
		if _, ok := n.scalar.(string); ok {
			hint = "put it in brackets"
		}
		t.errorf(n, "build/wrong-type", hint, "%s: expected an array of strings, got %s", n.path, n.kind())
		return n
	}
	for _, e := range n.list {
		if s, ok := t.stringOf(e); ok {
			f(s, e)
		}
	}
	return n
}

func (t *tableReader) boolean(key string) bool {
	n := t.get(key)
	if n == nil {
		return false
	}
	b, ok := n.scalar.(bool)
	if !ok {
		t.errorf(n, "build/wrong-type", "", "%s: expected true or false, got %s", n.path, n.kind())
	}
	return b
}

// uint reads a non-negative integer that fits an int32.
func (t *tableReader) uint(key string) (v int, n *node) {
	n = t.get(key)
	if n == nil {
		return 0, nil
	}
	i, ok := n.scalar.(int64)
	switch {
	case !ok:
		t.errorf(n, "build/wrong-type", "", "%s: expected an integer, got %s", n.path, n.kind())
	case i < 0 || i > math.MaxInt32:
		t.errorf(n, "build/out-of-range", "", "%s: expected an integer from 0 to %d, got %d", n.path, math.MaxInt32, i)
	}
	return int(i), n
}

func (t *tableReader) version(key string) (v Version, n *node) {
	if n = t.get(key); n == nil {
		return Version{}, nil
	}
	return t.versionOf(n), n
}

func (r *reader) versionOf(n *node) Version {
	switch s := n.scalar.(type) {
	case string:
		v, err := ParseVersion(s)
		if err != nil {
			hint := ""
			if i, err := parseComponent(s); err == nil {
				hint = fmt.Sprintf("write \"%d.0\"", i)
			} else if parts := strings.Split(s, "."); len(parts) > 2 {
				if _, err := ParseVersion(parts[0] + "." + parts[1]); err == nil {
					hint = fmt.Sprintf("write \"%s.%s\"", parts[0], parts[1])
				}
			}
			r.errorf(n, "build/version", hint, "%s: %v", n.path, err)
		}
		return v
	case float64:
		r.errorf(n, "build/wrong-type", "put it in quotes, with the zeros that belong to it", "%s: expected a version in a string, got a float", n.path)
	default:
		r.errorf(n, "build/wrong-type", "a version is a string such as \"2.13\"", "%s: expected a version in a string, got %s", n.path, n.kind())
	}
	return Version{}
}

// backend checks a backend's name against the ones allowed here.
func (r *reader) backend(n *node, s string, allowed []Backend) (Backend, bool) {
	names := make([]string, len(allowed))
	for i, b := range allowed {
		names[i] = string(b)
	}
	if !slices.Contains(allowed, Backend(s)) {
		hint := didYouMean(s, names)
		if slices.Contains(Backends, Backend(s)) {
			hint = "this backend has no compiled sections"
		}
		r.errorf(n, "build/unknown-value", hint, "%s: unknown backend %q; expected %s", n.path, s, oneOf(names))
		return "", false
	}
	return Backend(s), true
}

// oneOf prints a list of choices.
func oneOf(names []string) string {
	switch len(names) {
	case 0:
		return "nothing"
	case 1:
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// didYouMean returns a hint that names the closest choice, or nothing when no
// choice is close.
func didYouMean(got string, choices []string) string {
	best, bestScore := "", 0.0
	fold := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "_", "-") }
	for _, c := range choices {
		score := levenshtein.Match(fold(got), fold(c), nil)
		if score > bestScore {
			best, bestScore = c, score
		}
	}
	if bestScore < 0.6 {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", best)
}
