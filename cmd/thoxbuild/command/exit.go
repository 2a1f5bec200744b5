package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/thox-ai/thoxbuild/compile"
	"github.com/thox-ai/thoxbuild/manifests"
)

// Exit codes. They are part of the interface: scripts and CI branch on them.
const (
	exitOK          = 0
	exitFailed      = 1   // something was tried and failed
	exitUsage       = 2   // bad flags, arguments or configuration; nothing was tried
	exitFindings    = 3   // the checks ran and found errors
	exitInterrupted = 130 // a signal, see Main
)

// usageError is a mistake in how the command was called or configured.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// findingsError says that a check ran to its end and found errors, which were
// already reported: only the summary is left to print.
type findingsError struct{ summary string }

func (e findingsError) Error() string { return e.summary }

// hinted adds the one thing a person can do next to an error.
type hinted struct {
	err  error
	hint string
}

func (h hinted) Error() string { return h.err.Error() }
func (h hinted) Unwrap() error { return h.err }

// UserHint is the line that printError shows. Errors of the rooms that know a
// next step have the same method.
func (h hinted) UserHint() string { return h.hint }

// withHint attaches a hint line that printError shows under the error.
func withHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return hinted{err, fmt.Sprintf(format, args...)}
}

// exitCode is the only place that turns an error into a process exit code.
func exitCode(ctx context.Context, err error) int {
	var usage usageError
	var problems manifests.Problems
	var findings findingsError
	var config *compile.ConfigError
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil || errors.Is(err, context.Canceled) || nobodyReads(err):
		return exitInterrupted
	case errors.As(err, &findings):
		return exitFindings
	case errors.As(err, &usage), errors.As(err, &problems), errors.As(err, &config):
		return exitUsage
	default:
		return exitFailed
	}
}

// nobodyReads reports whether an error is that the reader of stdout went away,
// as head does.
func nobodyReads(err error) bool {
	var path *fs.PathError
	return errors.As(err, &path) && path.Path == os.Stdout.Name() && errors.Is(path, syscall.EPIPE)
}

// printError writes the final error for a person: what failed, then hints.
// Who ends the reader of the output knows that.
func printError(s *Streams, ctx context.Context, err error) {
	if nobodyReads(err) {
		return
	}
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		fmt.Fprintln(s.Err, "thoxbuild: interrupted; run the same command again to continue")
		return
	}
	fmt.Fprintf(s.Err, "%s %s\n", s.paint(red, "thoxbuild: error:"), strings.TrimRight(err.Error(), "\n"))
	for _, h := range hints(err, nil) {
		fmt.Fprintf(s.Err, "%s %s\n", s.paint(cyan, "thoxbuild: hint:"), h)
	}
}

// hints collects the next steps that an error, and the errors in it, know.
func hints(err error, found []string) []string {
	if h, ok := err.(interface{ UserHint() string }); ok && h.UserHint() != "" && !slices.Contains(found, h.UserHint()) {
		found = append(found, h.UserHint())
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return hints(inner, found)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			found = hints(inner, found)
		}
	}
	return found
}
