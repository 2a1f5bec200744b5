package facts

import (
	"fmt"
	"strings"
)

func more(n int) string { return fmt.Sprintf("and %d more of this kind in the same file", n) }

// listed joins at most max names and counts the rest.
func listed(names []string, max int) string {
	if len(names) <= max {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:max], ", "), len(names)-max)
}
