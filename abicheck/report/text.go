package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// TextOptions say how Text writes.
type TextOptions struct {
	// Color uses terminal colours.
	Color bool
	// All writes every finding; otherwise a rule is written perRule times for
	// a file and then counted.
	All bool
	// Min leaves milder findings out; they are still in the summary.
	Min rule.Severity
}

// perRule is how often one rule is written for one file.
const perRule = 8

// Text writes findings for people: one paragraph each, in the form
//
//	error[ID]: file: message
//	  why, in one or more lines
//	  fix: one thing to do
func (r *Report) Text(w io.Writer, o TextOptions) error {
	b := bufio.NewWriter(w)
	type key struct{ where, id string }
	n := map[key]int{}
	total := map[key]int{}
	for i := range r.Findings {
		f := &r.Findings[i]
		total[key{f.Where(), f.ID}]++
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Severity < o.Min {
			continue
		}
		k := key{f.Where(), f.ID}
		if n[k]++; n[k] > perRule && !o.All {
			if n[k] == perRule+1 {
				fmt.Fprintf(b, "%s: %s: %d more like it; --format json lists them\n", heading(f, o.Color), clean(f.Where()), total[k]-perRule)
			}
			continue
		}
		textFinding(b, f, o.Color)
	}
	return b.Flush()
}

func heading(f *rule.Finding, color bool) string {
	if !color {
		return fmt.Sprintf("%v[%s]", f.Severity, f.ID)
	}
	code := map[rule.Severity]string{rule.Error: "31;1", rule.Warning: "33;1", rule.Note: "36"}[f.Severity]
	return fmt.Sprintf("\x1b[%sm%v[%s]\x1b[0m", code, f.Severity, f.ID)
}

func textFinding(b *bufio.Writer, f *rule.Finding, color bool) {
	where := clean(f.Where())
	if p := f.Place(); p != "" {
		where += ": " + clean(p)
	}
	fmt.Fprintf(b, "%s: %s: %s\n", heading(f, color), where, clean(f.Message))
	if f.Demangled != "" && !strings.Contains(f.Message, f.Demangled) {
		fmt.Fprintf(b, "  that is: %s\n", clean(f.Demangled))
	}
	for _, d := range f.Detail {
		fmt.Fprintf(b, "  %s\n", clean(d))
	}
	if f.Confidence != "" && f.Confidence != rule.Certain {
		fmt.Fprintf(b, "  confidence: %s\n", f.Confidence)
	}
	if f.Fix != "" {
		fmt.Fprintf(b, "  fix: %s\n", clean(f.Fix))
	}
}

// longest is how much of a text from a file is shown.
const longest = 500

// clean makes text that came out of a file safe for a terminal: no control
// characters, and not longer than a reader wants.
func clean(s string) string {
	s = strings.ReplaceAll(printable(s), "\n", "\n  ")
	if r := []rune(s); len(r) > longest {
		s = string(r[:longest]) + "..."
	}
	return s
}

// printable replaces control characters other than line ends.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
