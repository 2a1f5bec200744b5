package matrix

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// capability is one entry of a CUDA list: "9.0", "9.0a", "10.0f", "12.0+PTX".
type capability struct {
	major, minor int
	suffix       string // "", "a" or "f"
	ptx          bool
}

func parseCapability(s string) (capability, error) {
	var c capability
	rest, ptx := strings.CutSuffix(s, "+PTX")
	c.ptx = ptx
	if n := len(rest); n > 0 && (rest[n-1] == 'a' || rest[n-1] == 'f') {
		c.suffix, rest = rest[n-1:], rest[:n-1]
	}
	major, minor, ok := strings.Cut(rest, ".")
	var err1, err2 error
	c.major, err1 = strconv.Atoi(major)
	c.minor, err2 = strconv.Atoi(minor)
	if !ok || err1 != nil || err2 != nil || c.major < 0 || c.minor < 0 || c.String() != s {
		return c, fmt.Errorf("%q is not a CUDA capability; expected one as in \"9.0\", \"9.0a\", \"10.0f\" or \"12.0+PTX\"", s)
	}
	return c, nil
}

func (c capability) String() string {
	s := fmt.Sprintf("%d.%d%s", c.major, c.minor, c.suffix)
	if c.ptx {
		s += "+PTX"
	}
	return s
}

// base drops the suffix and PTX.
func (c capability) base() capability { return capability{major: c.major, minor: c.minor} }

func (c capability) compare(o capability) int {
	return cmp.Or(cmp.Compare(c.major, o.major), cmp.Compare(c.minor, o.minor), cmp.Compare(c.suffix, o.suffix))
}

// LooseIntersection chooses what to compile for from the list that a kernel
// asks for and the list that the toolkit supports.
//
// An architecture-specific entry (9.0a) is taken when the toolkit supports
// its base, which then needs no plain code any more. For every other
// supported capability the newest asked-for entry is taken that its devices
// can run: one of the same major, or any older one that asks for PTX. So the
// result holds no entry that a newer one makes useless, and is empty when
// nothing fits.
//
// dropped are the entries of asked that the result has no use for, as written.
func LooseIntersection(asked, supported []string) (chosen, dropped []string, err error) {
	want := make([]capability, 0, len(asked))
	ptx := map[string]bool{}
	for _, s := range asked {
		c, err := parseCapability(s)
		if err != nil {
			return nil, nil, err
		}
		if c.ptx {
			c.ptx = false
			ptx[c.String()] = true
		}
		if !slices.Contains(want, c) {
			want = append(want, c)
		}
	}
	var have []capability
	for _, s := range supported {
		c, err := parseCapability(s)
		if err != nil {
			return nil, nil, err
		}
		c.ptx = false
		have = append(have, c)
	}
	var out, plain []capability
	specific := map[capability]bool{}
	for _, c := range want {
		switch {
		case c.suffix == "":
			plain = append(plain, c)
		case slices.Contains(have, c.base()) || specific[c.base()]:
			// 9.0a and 9.0f may both be asked for.
			specific[c.base()] = true
			out = append(out, c)
			have = slices.DeleteFunc(have, func(h capability) bool { return h == c.base() })
		}
	}
	slices.SortFunc(plain, capability.compare)
	for _, t := range have {
		for _, c := range slices.Backward(plain) {
			if c.compare(t) <= 0 && (c.major == t.major || ptx[c.String()]) {
				out = append(out, c)
				break
			}
		}
	}
	slices.SortFunc(out, capability.compare)
	for _, c := range slices.Compact(out) {
		c.ptx = ptx[c.String()]
		chosen = append(chosen, c.String())
	}
	for _, s := range asked {
		c, _ := parseCapability(s)
		c.ptx = false
		if !slices.Contains(out, c) {
			dropped = append(dropped, s)
		}
	}
	return chosen, dropped, nil
}
