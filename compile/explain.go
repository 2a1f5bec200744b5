package compile

import (
	"runtime"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/compile/action"
	"github.com/thox-ai/thoxbuild/compile/cache"
)

// Survey is what a run would do, found out without running anything.
type Survey struct {
	Total, Cached int
	// Missing are the actions that would run, in plan order.
	Missing []*Action
	// CriticalPath is the estimated seconds of the longest chain of them,
	// Seconds that of all. Chain is that chain.
	CriticalPath, Seconds float64
	Chain                 []*Action
}

// Survey looks each action up in the cache. What waits for a missing result
// counts as missing, and with a nil cache everything does.
func (p *Plan) Survey(c *cache.Disk) Survey {
	s := Survey{Total: len(p.actions)}
	results := make([]*action.Result, len(p.actions))
	if c != nil {
		results = p.lookUp(c, runtime.GOMAXPROCS(0))
	}
	if slices.Contains(results, nil) {
		p.weigh(results)
	}
	chain := make([]float64, len(p.actions))
	before := make([]*Action, len(p.actions)) // in the chain, nil for its start
	var end *Action
	for _, a := range p.actions {
		for _, d := range a.Deps {
			if chain[d.index] > chain[a.index] {
				chain[a.index], before[a.index] = chain[d.index], d
			}
		}
		if results[a.index] != nil {
			s.Cached++
			continue
		}
		s.Missing = append(s.Missing, a)
		s.Seconds += a.Cost
		if chain[a.index] += a.Cost; chain[a.index] > s.CriticalPath {
			s.CriticalPath, end = chain[a.index], a
		}
	}
	missing := map[*Action]bool{}
	for _, a := range s.Missing {
		missing[a] = true
	}
	for a := end; a != nil; a = before[a.index] {
		if missing[a] {
			s.Chain = append(s.Chain, a)
		}
	}
	slices.Reverse(s.Chain)
	return s
}

// Explain says what an action's key is made of. The history gives the
// difference from the last run of the action and may be nil.
func (p *Plan) Explain(a *Action, c *cache.Disk, h *History) (*Explanation, error) {
	results := p.lookUp(c, runtime.GOMAXPROCS(0))
	e := &Explanation{Label: a.Label}
	spec, err := resolveSpec(a, results)
	if err != nil {
		// An input is not made yet: say the rest, with a zero digest for it.
		spec, err = a.spec(func(in input) (action.Digest, error) { return action.Digest{}, nil })
	} else {
		e.Known = true
	}
	if err != nil {
		return nil, err
	}
	e.Lines = spec.Explain()
	if e.Known {
		if e.Key, err = spec.Key(); err != nil {
			return nil, err
		}
		e.Cached = results[a.index] != nil
	}
	if h != nil {
		h.mu.Lock()
		h.load()
		past := h.runs[a.Label]
		h.mu.Unlock()
		if past != nil {
			e.Seen = true
			e.Changes = action.Diff(past.Lines, e.Lines)
		}
	}
	return e, nil
}

// Find returns the actions that a person may mean by a word: a variant's name,
// or part of an action's label such as a file's name.
func (p *Plan) Find(word string) []*Action {
	var out []*Action
	for _, a := range p.actions {
		if containsWord(a, word) {
			out = append(out, a)
		}
	}
	return out
}

func containsWord(a *Action, word string) bool {
	return slices.Contains(a.Variants, word) || strings.Contains(a.Label, word)
}
