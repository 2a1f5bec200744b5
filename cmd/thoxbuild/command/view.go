package command

import "github.com/thox-ai/thoxbuild/compile/progress"

// newView shows a running build on stderr. Close it before printing results.
func newView(s *Streams) *progress.Printer {
	return progress.New(s.Err, progress.Options{Live: s.ErrTTY, Width: s.ErrWidth, Variants: true})
}
