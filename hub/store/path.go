package store

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// CheckPath refuses every path of a repository file that could mean another
// place once it is joined to a folder, here or on a client's machine.
func CheckPath(p string) error {
	bad := func(why string) error { return fmt.Errorf("%w path %q: %s", ErrInvalid, clip(p), why) }
	switch {
	case p == "":
		return bad("empty")
	case len(p) > 4096:
		return bad("longer than 4096 bytes")
	case !utf8.ValidString(p):
		return bad("not UTF-8")
	case strings.ContainsRune(p, '\\'):
		return bad("backslash")
	}
	for _, r := range p {
		if r < 0x20 || r == 0x7f {
			return bad("control character")
		}
	}
	for seg := range strings.SplitSeq(p, "/") {
		switch {
		case seg == "":
			return bad("empty segment, or a slash at an end")
		case seg == "." || seg == "..":
			return bad("segment " + seg)
		case len(seg) > 255:
			return bad("segment longer than 255 bytes")
		case strings.EqualFold(seg, ".git"):
			return bad("segment .git")
		}
	}
	return nil
}

// CheckName refuses branch and tag names that git refuses, and names that
// would be taken for something else.
func CheckName(name string) error {
	bad := func(why string) error { return fmt.Errorf("%w name %q: %s", ErrInvalid, clip(name), why) }
	if name == "" || name == "@" || name == "HEAD" {
		return bad("reserved")
	}
	if len(name) > 200 || !utf8.ValidString(name) {
		return bad("too long or not UTF-8")
	}
	if strings.HasPrefix(name, "refs/") {
		return bad("starts with refs/")
	}
	if strings.HasPrefix(name, "-") {
		return bad("starts with a dash")
	}
	if strings.Contains(name, "..") || strings.Contains(name, "@{") {
		return bad("holds .. or @{")
	}
	if len(name) == 40 && isHex(name) {
		return bad("looks like a commit id")
	}
	for _, r := range name {
		if r <= 0x20 || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) {
			return bad(fmt.Sprintf("holds %q", r))
		}
	}
	for seg := range strings.SplitSeq(name, "/") {
		if seg == "" || strings.HasPrefix(seg, ".") || strings.HasSuffix(seg, ".") || strings.HasSuffix(seg, ".lock") {
			return bad("segment that git refuses")
		}
	}
	return nil
}

// CheckRepoName checks a namespace or a repository's name.
func CheckRepoName(s string) error {
	ok := s != "" && len(s) <= 96 && !strings.Contains(s, "--") && !strings.Contains(s, "..") &&
		!strings.HasSuffix(s, ".git") && !strings.HasPrefix(s, ".") && !strings.HasPrefix(s, "-") && !strings.HasSuffix(s, ".")
	for _, r := range s {
		ok = ok && (r == '_' || r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}
	if !ok {
		return fmt.Errorf("%w repository name %q: want 1 to 96 of letters, digits, '-', '_' and '.', without '--' and '..'", ErrInvalid, clip(s))
	}
	return nil
}

func isHex(s string) bool {
	for _, r := range s {
		if !(r >= '0' && r <= '9' || r >= 'a' && r <= 'f') {
			return false
		}
	}
	return s != ""
}

func clip(s string) string {
	if len(s) > 120 {
		return s[:120] + "..."
	}
	return s
}
