// Package abicheck checks compiled kernels, and anybody's binaries, before
// they are published or loaded: which systems, Pythons, torch releases and
// processors a file really needs, against what its name claims.
//
// Check takes files, archives, wheels, variant folders and trees, and tells
// what they are by their content, not their suffix. Everything is read through
// io.ReaderAt, several files at a time; a hostile or cut file gives a finding
// with the id FORMAT and never stops the others. Memory stays below the size
// of the largest file plus a fixed amount.
//
// The rules live in facts (tables) and isa (code); rule holds the words that
// both use, report the output forms.
package abicheck

import (
	"github.com/thox-ai/thoxbuild/abicheck/isa"
	"github.com/thox-ai/thoxbuild/abicheck/report"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// Names that users of this package need, so that most import nothing else.
type (
	// Finding is one broken rule in one place.
	Finding = rule.Finding
	// Severity is note, warning or error.
	Severity = rule.Severity
	// Options are what the caller wants checked.
	Options = rule.Options
	// Unit is an ISA unit that build.toml declares.
	Unit = rule.Unit
	// Report is the outcome of one run.
	Report = report.Report
)

// Baselines are the names that Options.Baseline takes.
var Baselines = isa.Baselines

// The severities.
const (
	Note    = rule.Note
	Warning = rule.Warning
	Error   = rule.Error
)
