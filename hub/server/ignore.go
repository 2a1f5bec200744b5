package server

import (
	"path"
	"strings"
)

// ignoreRules are the patterns of a .gitignore file: *, ?, [..], **, a leading
// or inner slash that anchors, a final slash for folders, and ! to take back.
type ignoreRules []ignoreRule

type ignoreRule struct {
	segs   []string
	negate bool
	dir    bool
}

func parseIgnore(text string) ignoreRules {
	var rules ignoreRules
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if !strings.HasSuffix(line, `\ `) {
			line = strings.TrimRight(line, " ")
		}
		if line == "" || line[0] == '#' {
			continue
		}
		var r ignoreRule
		if line[0] == '!' {
			r.negate, line = true, line[1:]
		}
		if cut, ok := strings.CutSuffix(line, "/"); ok {
			r.dir, line = true, cut
		}
		if !strings.Contains(line, "/") {
			line = "**/" + line
		}
		r.segs = strings.Split(strings.TrimPrefix(line, "/"), "/")
		rules = append(rules, r)
	}
	return rules
}

// match reports whether a file is ignored, itself or through a folder above it.
// As in git, a file below an ignored folder cannot be taken back.
func (rules ignoreRules) match(file string) bool {
	segs := strings.Split(file, "/")
	for i := 1; i <= len(segs); i++ {
		ignored := false
		for _, r := range rules {
			if (!r.dir || i < len(segs)) && matchSegs(r.segs, segs[:i]) {
				ignored = !r.negate
			}
		}
		if ignored {
			return true
		}
	}
	return false
}

func matchSegs(pat, segs []string) bool {
	if len(pat) == 0 {
		return len(segs) == 0
	}
	if pat[0] == "**" {
		if len(pat) == 1 {
			return len(segs) > 0
		}
		for i := range segs {
			if matchSegs(pat[1:], segs[i:]) {
				return true
			}
		}
		return false
	}
	if len(segs) == 0 {
		return false
	}
	ok, err := path.Match(pat[0], segs[0])
	return err == nil && ok && matchSegs(pat[1:], segs[1:])
}
