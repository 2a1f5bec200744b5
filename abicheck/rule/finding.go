package rule

import (
	"cmp"
	"fmt"
	"strings"
)

// Severity says what a finding does to the exit status. Only Error fails a
// check by itself; --strict makes Warning fail too.
type Severity int

// The severities, mildest first.
const (
	Note Severity = iota
	Warning
	Error
)

var severityNames = [...]string{"note", "warning", "error"}

// String prints "note", "warning" or "error".
func (s Severity) String() string {
	if s < 0 || int(s) >= len(severityNames) {
		return fmt.Sprintf("severity(%d)", int(s))
	}
	return severityNames[s]
}

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Severity) UnmarshalText(b []byte) error {
	for i, name := range severityNames {
		if name == string(b) {
			*s = Severity(i)
			return nil
		}
	}
	return fmt.Errorf("severity %q: expected note, warning or error", b)
}

// Confidence says how far a finding rests on inference. Facts that were read
// from the file are Certain; a role or a guard that had to be guessed is less.
type Confidence string

// The confidences.
const (
	Certain Confidence = "certain"
	Likely  Confidence = "likely"
	Guess   Confidence = "guess"
)

// Finding is one broken rule in one place.
type Finding struct {
	// ID is the stable name of the rule, such as "MANYLINUX".
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	// File is the path that was checked, Member the part of it: the name in a
	// wheel or archive, the architecture of a fat Mach-O slice, joined by "!".
	File   string `json:"file"`
	Member string `json:"member,omitempty"`
	// Section and Offset place the finding in an object file, Addr in a linked
	// one. Which of them hold is told by HasOffset and HasAddr: zero is a
	// valid place.
	Section   string `json:"section,omitempty"`
	Offset    uint64 `json:"offset,omitempty"`
	HasOffset bool   `json:"-"`
	Addr      uint64 `json:"addr,omitempty"`
	HasAddr   bool   `json:"-"`
	// Symbol is the name as the file has it; Demangled is filled in by the
	// frame when it is empty and the name is a mangled one.
	Symbol    string `json:"symbol,omitempty"`
	Demangled string `json:"demangled,omitempty"`
	// Message is one line: what is wrong, without the file's name.
	Message string `json:"message"`
	// Detail says why it matters here: what would run, who else defines it.
	Detail []string `json:"detail,omitempty"`
	// Fix is one concrete thing to do.
	Fix        string     `json:"fix,omitempty"`
	Confidence Confidence `json:"confidence,omitempty"`
}

// Where prints the file and member, as in "a.whl!pkg/_ops.abi3.so".
func (f *Finding) Where() string {
	if f.Member == "" {
		return f.File
	}
	return f.File + "!" + f.Member
}

// Place prints section+offset or the address, or nothing.
func (f *Finding) Place() string {
	switch {
	case f.HasAddr:
		return fmt.Sprintf("0x%x", f.Addr)
	case f.Section != "" && f.HasOffset:
		return fmt.Sprintf("%s+0x%x", f.Section, f.Offset)
	default:
		return f.Section
	}
}

// Compare is the order of every report: by file, then the gravest first, then
// by rule and place. It does not depend on which check ended first.
func (f *Finding) Compare(g *Finding) int {
	return cmp.Or(
		strings.Compare(f.File, g.File),
		strings.Compare(f.Member, g.Member),
		cmp.Compare(g.Severity, f.Severity),
		strings.Compare(f.ID, g.ID),
		strings.Compare(f.Section, g.Section),
		cmp.Compare(f.Offset, g.Offset),
		cmp.Compare(f.Addr, g.Addr),
		strings.Compare(f.Symbol, g.Symbol),
		strings.Compare(f.Message, g.Message),
	)
}
