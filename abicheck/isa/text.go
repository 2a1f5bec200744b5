package isa

import (
	"fmt"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// label prints a symbol with its demangled form where it has one.
func label(name string) string {
	if !strings.HasPrefix(name, "_Z") && !strings.HasPrefix(name, "_R") {
		return name
	}
	d, err := demangle.ToString(name, demangle.MaxLength(16))
	if err != nil || d == name {
		return name
	}
	return d
}

// brief lists the first n of names.
func brief(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}

func itoa(n int) string { return fmt.Sprint(n) }

func hex(n uint64) string { return fmt.Sprintf("0x%x", n) }
