package local

import (
	"maps"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// Describe implements action.Executor: one line with the real tool paths,
// which runs when it is pasted into a shell in a folder that holds the inputs.
func (e *Executor) Describe(s *action.Spec) string {
	words := []string{"env", "-i"}
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		words = append(words, quote(k+"="+e.resolve(s.Env[k])))
	}
	for _, a := range e.resolveAll(s.Args) {
		words = append(words, quote(a))
	}
	return strings.Join(words, " ")
}

// quote makes a word that a POSIX shell reads as s.
func quote(s string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_@%+=:,./-", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !safe(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
