package rule

import "context"

// Info documents one rule. The text of --explain is made from it, and so are
// SARIF's rule descriptions.
type Info struct {
	// ID never changes once released: suppressions and baselines name it.
	ID string
	// Severity is the usual one; a finding may be milder.
	Severity Severity
	// Title is one line without a full stop.
	Title string
	// Explain says what breaks for whom, how the rule decides, what it cannot
	// see, and how to mend it. Paragraphs are separated by empty lines.
	Explain string
}

// Pass looks at one subject and may break any of its rules. Several rules
// share a pass where they share the work.
type Pass struct {
	Name  string
	Rules []Info
	// Run reports what it finds. It must be safe to call at the same time for
	// different subjects. An error says that the subject could not be read; it
	// becomes a FORMAT finding and does not stop other passes.
	Run func(ctx context.Context, s *Subject, o *Options) ([]Finding, error)
	// Slow passes decode code; the frame leaves them out when only facts are
	// asked for.
	Slow bool
}
