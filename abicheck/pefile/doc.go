// Package pefile reads the import and export facts of Windows libraries
// (.dll, .pyd) that nobody vouches for. It reads headers and the two
// directories only, and checks every address before it allocates.
package pefile

import "github.com/thox-ai/thoxbuild/abicheck/bounded"

// FormatError says what is wrong with a file and where.
type FormatError = bounded.FormatError

func formatErr(off int64, format string, args ...any) error {
	return bounded.Errorf("pe", off, format, args...)
}
