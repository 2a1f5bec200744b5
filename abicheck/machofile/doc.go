// Package machofile reads Mach-O files and fat archives of them that nobody
// vouches for: every offset and count is checked against the file's size
// before anything is allocated, and only the load commands and what is asked
// for are read.
//
// Names of constants follow Apple's loader.h; the values that debug/macho
// knows are taken from there. A File is safe for use by several goroutines.
package machofile

import "github.com/thox-ai/thoxbuild/abicheck/bounded"

// FormatError says what is wrong with a file and where.
type FormatError = bounded.FormatError

func formatErr(off int64, format string, args ...any) error {
	return bounded.Errorf("mach-o", off, format, args...)
}
