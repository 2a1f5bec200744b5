package matrix

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/agext/levenshtein"
)

// Select keeps the variants whose names match at least one of the globs, in
// their order. A glob that matches none is an error: it is a typing mistake
// or asks for something that the kernel does not have. No globs keep all.
func Select(vs []Variant, globs []string) ([]Variant, error) {
	if len(globs) == 0 {
		return vs, nil
	}
	keep := make([]bool, len(vs))
	for _, g := range globs {
		if _, err := path.Match(g, ""); err != nil {
			return nil, fmt.Errorf("variant pattern %q: %w", g, err)
		}
		found := false
		for i, v := range vs {
			if Match(g, v.Name.String()) {
				keep[i], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("no variant matches %q%s", g, nearest(vs, g))
		}
	}
	var out []Variant
	for i, v := range vs {
		if keep[i] {
			out = append(out, v)
		}
	}
	return out, nil
}

func nearest(vs []Variant, glob string) string {
	if len(vs) == 0 {
		return ": the kernel has none"
	}
	best, bestScore := "", -1.0
	for _, v := range vs {
		name := v.Name.String()
		if score := levenshtein.Match(glob, name, nil); score > bestScore {
			best, bestScore = name, score
		}
	}
	return fmt.Sprintf("; the nearest is %q (`thoxbuild matrix` lists all)", best)
}

// Shard is one of Count equal parts of the work; Index counts from 1.
type Shard struct{ Index, Count int }

// ParseShard reads "I/N".
func ParseShard(s string) (Shard, error) {
	i, n, ok := strings.Cut(s, "/")
	index, err1 := strconv.Atoi(i)
	count, err2 := strconv.Atoi(n)
	if !ok || err1 != nil || err2 != nil || count < 1 || index < 1 || index > count {
		return Shard{}, fmt.Errorf("shard %q: expected I/N with 1 <= I <= N, as in 2/4", s)
	}
	return Shard{index, count}, nil
}

// String prints the form that ParseShard reads.
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Count) }

// Of returns the shard's variants in their order. The dearest variants are
// dealt out first, each to the shard with the least work, so the shards'
// costs differ by at most the cost of one variant. Every variant is in
// exactly one shard, and equal arguments give equal shards on every machine;
// a nil cost means EstimateCost. A shard can be empty when there are more
// shards than variants.
func (s Shard) Of(vs []Variant, cost func(Variant) float64) []Variant {
	if cost == nil {
		cost = EstimateCost
	}
	costs := make([]float64, len(vs))
	order := make([]int, len(vs))
	for i, v := range vs {
		costs[i], order[i] = max(0, cost(v)), i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(costs[b], costs[a]), cmp.Compare(id(vs[a]), id(vs[b])), cmp.Compare(a, b))
	})
	load := make([]float64, s.Count)
	size := make([]int, s.Count)
	mine := make([]bool, len(vs))
	for _, i := range order {
		least := 0
		for n := range load {
			if load[n] < load[least] || load[n] == load[least] && size[n] < size[least] {
				least = n
			}
		}
		load[least] += costs[i]
		size[least]++
		mine[i] = least == s.Index-1
	}
	var out []Variant
	for i, v := range vs {
		if mine[i] {
			out = append(out, v)
		}
	}
	return out
}

// id names a variant among those of several kernels.
func id(v Variant) string { return v.Kernel.General.Name + "/" + v.Name.String() }

// EstimateCost guesses a variant's work, in compilations, where no earlier
// build has measured it: every file once, and CUDA and ROCm files once for
// each architecture.
func EstimateCost(v Variant) float64 {
	cost := 1.0
	if t := v.Kernel.Torch; t != nil {
		cost += 4 * float64(len(t.Src)) // torch's headers take most of the time
	}
	if t := v.Kernel.TVMFFI; t != nil {
		cost += float64(len(t.Src))
	}
	for _, c := range v.Components {
		cost += float64(len(c.Section.Src) * max(1, len(c.Archs)))
	}
	return cost
}
