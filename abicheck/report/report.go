// Package report holds the outcome of an abicheck run and writes it as text,
// JSON, SARIF 2.1.0 and GitHub annotations.
package report

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// Report is the outcome of one run. Its order does not depend on timing.
type Report struct {
	// Files are the binaries that were looked at.
	Files []File `json:"files"`
	// Findings count; Suppressed were accepted by the suppressions file.
	Findings   []rule.Finding `json:"findings"`
	Suppressed []Suppressed   `json:"suppressed,omitempty"`
	// Rules are the rules that could have been broken.
	Rules []rule.Info `json:"-"`
	// Strict makes warnings fail.
	Strict bool `json:"strict,omitempty"`
}

// File is one binary that was looked at.
type File struct {
	File   string `json:"file"`
	Member string `json:"member,omitempty"`
	// Format is elf, mach-o, pe, ar, zip or variant.
	Format string `json:"format"`
	Arch   string `json:"arch,omitempty"`
	Role   string `json:"role,omitempty"`
	// Claims says where the promises came from that the file was held to.
	Claims    string `json:"claims,omitempty"`
	Manylinux string `json:"manylinux,omitempty"`
}

// Compare orders files by name.
func (f File) Compare(g File) int {
	return cmp.Or(strings.Compare(f.File, g.File), strings.Compare(f.Member, g.Member), strings.Compare(f.Format, g.Format))
}

// Suppressed is a finding that was accepted, with who said why.
type Suppressed struct {
	rule.Finding
	Reason  string     `json:"reason"`
	Expires *time.Time `json:"expires,omitempty"`
}

// Count returns how many findings have the severity.
func (r *Report) Count(s rule.Severity) (n int) {
	for i := range r.Findings {
		if r.Findings[i].Severity == s {
			n++
		}
	}
	return n
}

// Failed reports whether the run must end with the exit status for findings:
// an error, or a warning in strict mode.
func (r *Report) Failed() bool {
	return r.Count(rule.Error) > 0 || r.Strict && r.Count(rule.Warning) > 0
}

// Summary is one line: how much was looked at and what was found.
func (r *Report) Summary() string {
	s := fmt.Sprintf("%s checked: %s, %s, %s", plural(len(r.Files), "file"),
		plural(r.Count(rule.Error), "error"), plural(r.Count(rule.Warning), "warning"), plural(r.Count(rule.Note), "note"))
	if n := len(r.Suppressed); n > 0 {
		s += fmt.Sprintf(" (%d suppressed)", n)
	}
	return s
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Suppress takes accepted findings out. An entry that has expired accepts
// nothing and is an error itself; one that matches nothing is noted, where its
// rule was among those that ran.
func Suppress(found []rule.Finding, s *rule.Suppressions, ran func(id string) bool, now time.Time) (kept []rule.Finding, suppressed []Suppressed) {
	if s == nil {
		return found, nil
	}
	used := make([]int, len(s.Items))
	for i := range found {
		f := &found[i]
		by := -1
		for j := range s.Items {
			if s.Items[j].Match(f) {
				used[j]++
				if by < 0 && !s.Items[j].Expired(now) {
					by = j
				}
			}
		}
		if by < 0 {
			kept = append(kept, *f)
			continue
		}
		item := Suppressed{Finding: *f, Reason: s.Items[by].Reason}
		if e := s.Items[by].Expires; !e.IsZero() {
			item.Expires = &e
		}
		suppressed = append(suppressed, item)
	}
	name := cmp.Or(s.Path, "suppressions")
	for j := range s.Items {
		it := &s.Items[j]
		f := rule.Finding{ID: "SUPPRESSION", File: name, Symbol: it.Symbol, Confidence: rule.Certain}
		place := fmt.Sprintf("entry %d for %s", j+1, it.ID)
		switch {
		case it.Expired(now):
			f.Severity = rule.Error
			f.Message = fmt.Sprintf("%s expired on %s (%s); it covered %s", place, it.Expires.Format(time.DateOnly), it.Reason, plural(used[j], "finding"))
			f.Fix = "mend the findings, or give the entry a new date"
		case used[j] == 0 && ran(it.ID):
			f.Severity = rule.Note
			f.Message = place + " covers nothing"
			f.Fix = "remove it"
		default:
			continue
		}
		kept = append(kept, f)
	}
	return kept, suppressed
}
