package action

import "strings"

// MapPaths applies move, which replaces paths, to an argument of a command. Of
// -ffile-prefix-map=OLD=NEW and its kind only OLD is a place on the machine that
// runs it: NEW is what should stand in the output, and is to be the same
// everywhere.
func MapPaths(arg string, move func(string) string) string {
	for _, flag := range [...]string{"-ffile-prefix-map=", "-fmacro-prefix-map=", "-fdebug-prefix-map="} {
		if rest, ok := strings.CutPrefix(arg, flag); ok {
			old, new, _ := strings.Cut(rest, "=")
			return flag + move(old) + "=" + new
		}
	}
	return move(arg)
}
