// Package elffile reads ELF files that nobody vouches for.
//
// The standard debug/elf is documented as not hardened against hostile input
// and reads whole sections; this reader takes an io.ReaderAt and its size,
// checks every offset and count against that size before it allocates, and
// reads no more than it is asked for. What a dynamic loader would use is taken
// from the program headers and the dynamic section, as the loader does, so a
// stripped file, or one without section headers, gives the same answers.
//
// Constants come from debug/elf. Errors are *FormatError with the byte offset.
//
// A File and what it returns are safe for use by several goroutines.
package elffile

import "github.com/thox-ai/thoxbuild/abicheck/bounded"

// FormatError says what is wrong with a file and where.
type FormatError = bounded.FormatError

func formatErr(off int64, format string, args ...any) error {
	return bounded.Errorf("elf", off, format, args...)
}
