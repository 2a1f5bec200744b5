package rule

import (
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// Suppressions are findings that somebody looked at and accepted. The file is
// TOML:
//
//	[[suppress]]
//	id      = "EXPORTS"
//	file    = "*.abi3.so"      # glob on the base name, or on the path if it has a slash
//	symbol  = "thox_*"         # optional glob
//	reason  = "plug-in interface, see docs"
//	expires = 2027-06-01       # optional; from that day on it is an error
type Suppressions struct {
	// Path is where they were read, for messages.
	Path  string
	Items []Suppression
}

// Suppression accepts the findings that it matches.
type Suppression struct {
	ID      string
	File    string
	Symbol  string
	Reason  string
	Expires time.Time
	Line    int
}

// LoadSuppressions reads a suppressions file. Every entry must name a rule
// that known accepts and give a reason; all problems come at once.
func LoadSuppressions(name string, known func(id string) bool) (*Suppressions, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("suppressions: %w", err)
	}
	s, err := ParseSuppressions(b, known)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s.Path = name
	return s, nil
}

// ParseSuppressions reads the text of a suppressions file.
func ParseSuppressions(b []byte, known func(id string) bool) (*Suppressions, error) {
	var doc struct {
		Suppress []struct {
			ID      string
			File    string
			Symbol  string
			Reason  string
			Expires any
		}
	}
	meta, err := toml.Decode(string(b), &doc)
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, k := range meta.Undecoded() {
		problems = append(problems, fmt.Sprintf("unknown key %s: expected id, file, symbol, reason, expires", k))
	}
	s := &Suppressions{}
	for i, e := range doc.Suppress {
		item := Suppression{ID: e.ID, File: e.File, Symbol: e.Symbol, Reason: strings.TrimSpace(e.Reason)}
		place := fmt.Sprintf("suppress %d (%s)", i+1, e.ID)
		if !known(e.ID) {
			problems = append(problems, fmt.Sprintf("%s: no such rule; thoxbuild abicheck --explain lists them", place))
		}
		if item.Reason == "" {
			problems = append(problems, fmt.Sprintf("%s: a reason is required", place))
		}
		for _, glob := range []string{item.File, item.Symbol} {
			if _, err := path.Match(glob, ""); err != nil {
				problems = append(problems, fmt.Sprintf("%s: glob %q: %v", place, glob, err))
			}
		}
		if item.Expires, err = date(e.Expires); err != nil {
			problems = append(problems, fmt.Sprintf("%s: expires: expected a date such as 2027-06-01", place))
		}
		s.Items = append(s.Items, item)
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("%s", strings.Join(problems, "; "))
	}
	return s, nil
}

// date accepts a TOML date and the same written as a string.
func date(v any) (time.Time, error) {
	switch v := v.(type) {
	case nil:
		return time.Time{}, nil
	case time.Time:
		return v, nil
	case string:
		return time.Parse(time.DateOnly, v)
	}
	return time.Time{}, fmt.Errorf("a %T is no date", v)
}

// Match reports whether the entry covers the finding, whether or not it has
// expired.
func (s *Suppression) Match(f *Finding) bool {
	return s.ID == f.ID && globs(s.File, f) && (s.Symbol == "" || match(s.Symbol, f.Symbol) || match(s.Symbol, f.Demangled))
}

// globs matches a file pattern against the base name of the file and of the
// member, or against the whole of either when the pattern has a slash.
func globs(pattern string, f *Finding) bool {
	if pattern == "" {
		return true
	}
	for _, name := range []string{f.Member, f.File} {
		if name == "" {
			continue
		}
		if match(pattern, name) || !strings.Contains(pattern, "/") && match(pattern, path.Base(name)) {
			return true
		}
	}
	return false
}

func match(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// Expired reports whether the entry no longer holds at that time.
func (s *Suppression) Expired(now time.Time) bool {
	return !s.Expires.IsZero() && !now.Before(s.Expires)
}
