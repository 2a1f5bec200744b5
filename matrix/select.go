package matrix

import (
	"fmt"
	"path"

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
