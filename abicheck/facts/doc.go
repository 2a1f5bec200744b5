// Package facts holds the rules of abicheck that read tables, not code:
// symbols and their versions, needed libraries, search paths, segments, CUDA
// headers, Mach-O load commands, and the metadata around a file.
//
// Every rule reads what a loader reads (the dynamic section and segments), so
// stripping a file changes no verdict.
package facts

import "github.com/thox-ai/thoxbuild/abicheck/rule"

// Passes lists the passes of this package.
func Passes() []rule.Pass {
	return []rule.Pass{
		manylinuxPass, libraryPass, pythonPass, torchPass,
		searchPass, segmentPass, exportPass, contentPass,
		cudaPass, machoPass, windowsPass, platformPass, metaPass,
	}
}

// maxEach bounds the findings of one rule on one file; the last one then says
// how many more there were.
const maxEach = 200

// collector gathers the findings of one pass on one subject.
type collector struct {
	s     *rule.Subject
	count map[string]int
	out   []rule.Finding
}

func collect(s *rule.Subject) *collector { return &collector{s: s, count: map[string]int{}} }

// add appends a finding and returns it to be filled in further. Past maxEach
// it returns one that is thrown away.
func (c *collector) add(id string, sev rule.Severity, message, fix string, detail ...string) *rule.Finding {
	c.count[id]++
	f := c.s.Finding(id, sev, message)
	f.Fix, f.Detail = fix, detail
	if c.count[id] > maxEach {
		return &f
	}
	c.out = append(c.out, f)
	return &c.out[len(c.out)-1]
}

func (c *collector) done() []rule.Finding {
	for i := len(c.out) - 1; i >= 0; i-- {
		f := &c.out[i]
		if n := c.count[f.ID]; n > maxEach {
			f.Detail = append(f.Detail, more(n-maxEach))
			c.count[f.ID] = 0
		}
	}
	return c.out
}
