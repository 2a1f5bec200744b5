package compile

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/thox-ai/thoxbuild/compile/action"
	"github.com/thox-ai/thoxbuild/compile/cache"
)

// lookUp finds the results that the cache holds, by action. What waits for a
// missing result is missing as well: its inputs may be unknown, a check that it
// waits for may fail. A compile that gives the old bytes again lets it be found
// later.
func (p *Plan) lookUp(c *cache.Disk, jobs int) []*action.Result {
	results := make([]*action.Result, len(p.actions))
	one := func(a *Action) {
		if slices.ContainsFunc(a.Deps, func(d *Action) bool { return results[d.index] == nil }) {
			return
		}
		if key, err := resolveKey(a, results); err == nil {
			if r, err := c.Result(key); err == nil {
				results[a.index] = r
			}
		}
	}
	for _, level := range p.levels() {
		var next atomic.Int64
		var wg sync.WaitGroup
		for range min(jobs, len(level)) {
			wg.Go(func() {
				for i := next.Add(1) - 1; i < int64(len(level)); i = next.Add(1) - 1 {
					one(level[i])
				}
			})
		}
		wg.Wait()
	}
	return results
}

// levels groups the actions: each waits for some of the groups before its own
// and for none of its own.
func (p *Plan) levels() [][]*Action {
	depth := make([]int, len(p.actions))
	var levels [][]*Action
	for _, a := range p.actions {
		n := 0
		for _, d := range a.Deps {
			n = max(n, depth[d.index]+1)
		}
		depth[a.index] = n
		if n == len(levels) {
			levels = append(levels, nil)
		}
		levels[n] = append(levels[n], a)
	}
	return levels
}
