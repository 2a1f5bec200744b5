package action

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Request is an action that is ready to run.
type Request struct {
	Spec    *Spec
	Encoded *Encoded
	// Open gives the bytes of an input file by its digest. The caller checks
	// what it reads against the digest, for a source file may have changed
	// since it was hashed.
	Open func(Digest) (io.ReadCloser, error)
	// Path gives a file that already holds the verified bytes of a digest and
	// will not change, for hard links. It may be nil, and ok may be false.
	Path func(Digest) (path string, ok bool)
	// Timeout ends the action; zero means never. It is not part of the key:
	// how long one is ready to wait does not change the result.
	Timeout time.Duration
	// Started, when set, is called when the command begins to run, which on a
	// cluster may be long after the request. Where is as in Result.
	Started func(where string)
	// NoCache runs the command even where the executor knows its result.
	NoCache bool
}

// LogLimit bounds what an executor keeps of an action's output; a template
// error can print hundreds of megabytes.
const LogLimit = 4 << 20

// LeftOut ends an output of which n bytes were left out.
func LeftOut(n int64) string { return fmt.Sprintf("\n[%d more bytes of output]\n", n) }

// Output is a file that an action wrote.
type Output struct {
	Path   string
	Digest Digest
	Exec   bool
}

// Result is what an action did. A command that ran and failed is a Result
// with an ExitCode, not an error.
type Result struct {
	ExitCode int
	Outputs  []Output
	// Log is what the command printed, both streams in the order they came
	// where the executor can tell.
	Log []byte
	// Wall is how long the command ran, CPU the processor time it and its
	// children took (zero where unknown).
	Wall, CPU time.Duration
	// MaxRSS is the peak memory of the largest process in bytes, zero where
	// unknown.
	MaxRSS int64
	// Cached says that an executor with a cache of its own did not run it.
	Cached bool
	// Where names the place that ran it or knew the result, such as "remote".
	// It is empty for this machine, and no part of what a cache keeps.
	Where string
}

// Output returns the output at a path.
func (r *Result) Output(path string) (Output, bool) {
	for _, o := range r.Outputs {
		if o.Path == path {
			return o, true
		}
	}
	return Output{}, false
}

// Sink takes the output files of an action. It stores the bytes durably and
// returns their digest.
type Sink interface {
	// PutFile stores a copy of the file, or takes it over when the two lie on
	// one file system.
	PutFile(ctx context.Context, path string) (Digest, error)
	// Put stores what r holds; it fails when the bytes are not those of want.
	Put(ctx context.Context, want Digest, r io.Reader) error
}

// Executor runs actions. Run is called by many goroutines at once.
//
// An error means that the action did not run to its end: it could not be
// started, was cancelled, ran out of time (ErrTimeout), or its outputs could
// not be kept.
type Executor interface {
	Run(ctx context.Context, req *Request, out Sink) (*Result, error)
	// Describe prints the action as a command that a person can paste into a
	// shell where the executor's tools are.
	Describe(s *Spec) string
}

// ErrTimeout says that an action ran longer than its Request allows.
var ErrTimeout = errors.New("action timed out")
