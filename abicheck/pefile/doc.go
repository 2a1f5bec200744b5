// Package pefile reads the import and export facts of Windows libraries
// (.dll, .pyd) that nobody vouches for. It reads headers and the two
// directories only, and checks every address before it allocates.
package pefile

import "fmt"

// FormatError says what is wrong with a file and where.
type FormatError struct {
	Off int64
	Msg string
}

// Error implements error.
func (e *FormatError) Error() string { return fmt.Sprintf("pe: %s at byte 0x%x", e.Msg, e.Off) }

func formatErr(off int64, format string, args ...any) error {
	return &FormatError{off, fmt.Sprintf(format, args...)}
}
