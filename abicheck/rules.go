package abicheck

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"

	"github.com/thox-ai/thoxbuild/abicheck/facts"
	"github.com/thox-ai/thoxbuild/abicheck/isa"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// frameRules are broken by the frame itself.
var frameRules = []rule.Info{{
	ID: "FORMAT", Severity: rule.Error,
	Title: "the file cannot be read as what it begins like",
	Explain: `The file has the first bytes of a library, object, archive or wheel, but a
table inside points outside the file, is cut off, or contradicts another. A
loader would refuse it too, or worse. The message names the byte. A file with
the name of a library that is empty, or that Git LFS has not fetched, is told
here as well.

Nothing else is said about such a file: download or build it again.`,
}, {
	ID: "SUPPRESSION", Severity: rule.Error,
	Title: "an accepted finding has expired",
	Explain: `An entry of the suppressions file had an expiry date, and it has passed. The
findings that it covered count again. Look at them once more, then mend them
or give the entry a new date and reason. An entry that covers nothing is noted,
so that it can be removed.`,
}}

// passes lists every pass in the order in which they run.
func passes() []rule.Pass {
	return append(facts.Passes(), isa.Passes()...)
}

// Rules lists every rule, sorted by id.
func Rules() []rule.Info {
	all := append(slices.Clone(frameRules), facts.PackageRules...)
	for _, p := range passes() {
		all = append(all, p.Rules...)
	}
	slices.SortFunc(all, func(a, b rule.Info) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// Known reports whether a rule of that id exists.
func Known(id string) bool {
	return slices.ContainsFunc(Rules(), func(r rule.Info) bool { return r.ID == id })
}

// Explain returns the long text about a rule, for --explain.
func Explain(id string) (string, error) {
	r, err := Rule(id)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s (%v): %s\n\n%s\n", r.ID, r.Severity, r.Title, r.Explain), nil
}

// Rule finds a rule by its id, in any case of letters.
func Rule(id string) (rule.Info, error) {
	var near string
	best := 3
	for _, r := range Rules() {
		if strings.EqualFold(r.ID, id) {
			return r, nil
		}
		if d := levenshtein.Distance(r.ID, strings.ToUpper(id), nil); d < best {
			best, near = d, r.ID
		}
	}
	if near != "" {
		return rule.Info{}, fmt.Errorf("no rule %q; did you mean %s?", id, near)
	}
	var ids []string
	for _, r := range Rules() {
		ids = append(ids, r.ID)
	}
	return rule.Info{}, fmt.Errorf("no rule %q: expected one of %s", id, strings.Join(ids, ", "))
}

// LoadSuppressions reads a file of accepted findings; see rule.Suppressions.
func LoadSuppressions(name string) (*rule.Suppressions, error) {
	return rule.LoadSuppressions(name, Known)
}
