package publish

import (
	"slices"

	"github.com/thox-ai/thoxbuild/manifests"
)

// limits bound one commit.
type limits struct {
	ops    int
	inline int64 // bytes of files that travel inside the commit
}

// withDefaults fills in the limits that the Hub's own publishers keep to.
func (l limits) withDefaults() limits {
	if l.ops == 0 {
		l.ops = 1000
	}
	if l.inline == 0 {
		l.inline = 100 << 20
	}
	return l
}

// split divides the changes into commits. A variant that fits into one commit
// is never divided, so a reader sees each variant whole or not at all. One
// that does not fit loses its metadata first (so nothing can load a mix of old
// and new files) and gets the new one last.
func (l limits) split(changes []Change, inline map[string]bool, published func(path string) bool) [][]Change {
	var out [][]Change
	var cur []Change
	var bytes int64
	flush := func() {
		if len(cur) > 0 {
			out = append(out, cur)
		}
		cur, bytes = nil, 0
	}
	size := func(c Change) int64 {
		if c.file != nil && inline[c.Path] {
			return c.Size
		}
		return 0
	}
	for len(changes) > 0 {
		n, total := 1, size(changes[0])
		if g := changes[0].group; g != "" {
			for n < len(changes) && changes[n].group == g {
				total += size(changes[n])
				n++
			}
		}
		group := changes[:n]
		changes = changes[n:]
		fits := n <= l.ops && total <= l.inline
		if len(cur)+n > l.ops || bytes+total > l.inline {
			flush()
		}
		if fits {
			cur = append(cur, group...)
			bytes += total
			continue
		}
		meta := "build/" + group[0].group + "/" + manifests.MetadataFile
		replaced := slices.ContainsFunc(group, func(c Change) bool { return c.Path == meta })
		if replaced && published(meta) {
			cur = append(cur, Change{Action: "delete", Path: meta, group: group[0].group})
		}
		for _, c := range group {
			if len(cur)+1 > l.ops || (bytes > 0 && bytes+size(c) > l.inline) {
				flush()
			}
			cur = append(cur, c)
			bytes += size(c)
		}
		flush()
	}
	flush()
	return out
}
