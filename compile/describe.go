package compile

import "github.com/thox-ai/thoxbuild/compile/action"

// Describe is the command that an action runs, as one line to paste; ok is
// false for a step that this program does itself. The digests of inputs that
// are not built yet do not matter to the text.
func (a *Action) Describe(e action.Executor) (line string, ok bool) {
	if a.inProcess != nil {
		return "", false
	}
	spec, err := a.spec(func(input) (action.Digest, error) { return action.Digest{}, nil })
	if err != nil {
		return "", false
	}
	return e.Describe(spec), true
}
