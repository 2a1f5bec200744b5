// Package filetime says what a system tells of a file's last change, for those
// who remember what a file holds and want to read it only when it changed.
package filetime

import "time"

// RacySpan is longer than the coarsest file time in use (2 s on FAT). What
// changed less than that before it is read could change again without a new
// time.
const RacySpan = 3 * time.Second
