// Package policy holds the facts that binaries are judged by: the symbol
// versions of each manylinux policy, CPython's stable ABI, and torch's C shim.
// They are text files beside this package, embedded, with their source and
// date in their first lines; updating one is replacing facts, not code.
package policy

import (
	"bufio"
	"iter"
	"strings"
)

// lines yields the fields of every line that is not empty or a comment.
func lines(text string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		sc := bufio.NewScanner(strings.NewReader(text))
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			line, _, _ := strings.Cut(sc.Text(), "#")
			if f := strings.Fields(line); len(f) > 0 && !yield(f) {
				return
			}
		}
	}
}
