package manifests

import (
	"fmt"
	"strings"
)

// Pos is a place in a text file. Line and Col count from 1; Col counts
// characters (Unicode code points), which is what editors jump to. The zero
// Pos means that no place is known.
type Pos struct {
	File string
	Line int
	Col  int
}

// IsValid reports whether p names a line.
func (p Pos) IsValid() bool { return p.Line > 0 }

// String prints "file:line:col", or as much of it as is known.
func (p Pos) String() string {
	switch {
	case p.IsValid() && p.File != "":
		return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
	case p.IsValid():
		return fmt.Sprintf("%d:%d", p.Line, p.Col)
	default:
		return p.File
	}
}

// Severity says whether a problem stops the work.
type Severity string

// The two severities of a Problem.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Problem is one thing that is wrong with a file.
type Problem struct {
	Pos      Pos
	Severity Severity
	// ID is stable across releases, such as "build/unknown-key".
	ID string
	// Key is the dotted path of the value, such as kernel.rms.src[2].
	Key string
	// Message says what is wrong and what was expected.
	Message string
	// Hint is the likely intent or the command to run. It may be empty.
	Hint string
}

// String prints the problem on one line, its hint included.
func (p Problem) String() string {
	var b strings.Builder
	if s := p.Pos.String(); s != "" {
		b.WriteString(s + ": ")
	}
	if p.Severity == Warning {
		b.WriteString("warning: ")
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return b.String()
}

// Problems is every problem that was found in one run, in the order of the
// files and of the lines in them. As an error it prints one problem a line.
type Problems []Problem

// Error implements error.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Errors returns the problems that stop the work.
func (ps Problems) Errors() Problems { return ps.with(Error) }

// Warnings returns the problems that do not.
func (ps Problems) Warnings() Problems { return ps.with(Warning) }

func (ps Problems) with(s Severity) Problems {
	var out Problems
	for _, p := range ps {
		if p.Severity == s {
			out = append(out, p)
		}
	}
	return out
}

// Err returns the problems as an error when at least one stops the work, and
// nil otherwise. Warnings are left out of the error.
func (ps Problems) Err() error {
	if errs := ps.Errors(); len(errs) > 0 {
		return errs
	}
	return nil
}
