package manifests

import (
	"bytes"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// tomlScan finds where each key and value of a valid TOML text stands. The
// TOML library gives values without their places, so the text is read twice:
// there for what it says, here for where it says it.
//
// It relies on the text being valid and only has to find the ends of tokens;
// a text that is not can give wrong places, never a crash.
type tomlScan struct {
	src []byte
	i   int
	// at maps a path (see joinPath) to the place of its key and value.
	at map[string]tomlSpan
	// tables counts the elements of each array of tables.
	tables map[string]int
}

// tomlSpan holds byte offsets. An array element has no key of its own: both
// are the value's.
type tomlSpan struct {
	key, val int
}

// joinPath makes a map key of a path. Keys can hold any character but none
// needs NUL: TOML refuses it in keys, escaped or not, only as \u0000, which
// can at worst give a wrong place.
func joinPath(path []string) string { return strings.Join(path, "\x00") }

func indexPart(i int) string { return "[" + strconv.Itoa(i) + "]" }

func scanTOML(src []byte) map[string]tomlSpan {
	s := &tomlScan{src: src, at: map[string]tomlSpan{}, tables: map[string]int{}}
	var table []string
	for s.blank(); s.i < len(s.src); s.blank() {
		start := s.i
		if s.src[s.i] == '[' {
			table = s.header()
		} else {
			s.keyValue(table)
		}
		if s.i == start {
			s.i++
		}
	}
	return s.at
}

// header reads [a.b] or [[a.b]] and returns the path that it opens.
func (s *tomlScan) header() []string {
	start := s.i
	double := bytes.HasPrefix(s.src[s.i:], []byte("[["))
	s.i++
	if double {
		s.i++
	}
	parts, offsets := s.key()
	for s.i < len(s.src) && s.src[s.i] == ']' {
		s.i++
	}
	var path []string
	for n, part := range parts {
		path = append(path, part)
		last := n == len(parts)-1
		if last {
			// The header is where a reader looks, even if a longer header
			// named the table before.
			if !double || s.tables[joinPath(path)] == 0 {
				s.at[joinPath(path)] = tomlSpan{offsets[n], start}
			}
			if double {
				s.tables[joinPath(path)]++
			}
		} else {
			s.note(path, tomlSpan{offsets[n], start})
		}
		if count := s.tables[joinPath(path)]; count > 0 {
			path = append(path, indexPart(count-1))
			s.note(path, tomlSpan{offsets[n], start})
		}
	}
	return path
}

// note keeps the first place of a path.
func (s *tomlScan) note(path []string, at tomlSpan) {
	if _, ok := s.at[joinPath(path)]; !ok {
		s.at[joinPath(path)] = at
	}
}

func (s *tomlScan) keyValue(table []string) {
	parts, offsets := s.key()
	path := append([]string{}, table...)
	if len(parts) == 0 {
		return
	}
	for n, part := range parts {
		path = append(path, part)
		if n < len(parts)-1 {
			s.note(path, tomlSpan{offsets[n], offsets[n]})
		}
	}
	s.space()
	if s.i < len(s.src) && s.src[s.i] == '=' {
		s.i++
	}
	s.space()
	s.value(path, offsets[len(offsets)-1])
}

// key reads a dotted key and leaves the scanner behind it.
func (s *tomlScan) key() (parts []string, offsets []int) {
	for s.space(); s.i < len(s.src); s.space() {
		start := s.i
		switch c := s.src[s.i]; {
		case c == '"' || c == '\'':
			s.text()
			parts = append(parts, unquoteKey(s.src[start:s.i]))
		case isBareKey(c):
			for s.i < len(s.src) && isBareKey(s.src[s.i]) {
				s.i++
			}
			parts = append(parts, string(s.src[start:s.i]))
		default:
			return parts, offsets
		}
		offsets = append(offsets, start)
		s.space()
		if s.i >= len(s.src) || s.src[s.i] != '.' {
			return parts, offsets
		}
		s.i++
	}
	return parts, offsets
}

func (s *tomlScan) value(path []string, key int) {
	if s.i >= len(s.src) {
		return
	}
	s.at[joinPath(path)] = tomlSpan{key, s.i}
	switch s.src[s.i] {
	case '"', '\'':
		s.text()
	case '[':
		s.i++
		for n := 0; ; n++ {
			s.separators()
			if s.i >= len(s.src) || s.src[s.i] == ']' {
				s.i++
				return
			}
			start := s.i
			s.value(append(path[:len(path):len(path)], indexPart(n)), s.i)
			if s.i == start {
				return
			}
		}
	case '{':
		s.i++
		for {
			s.separators()
			if s.i >= len(s.src) || s.src[s.i] == '}' {
				s.i++
				return
			}
			start := s.i
			s.keyValue(path)
			if s.i == start {
				return
			}
		}
	default:
		for s.i < len(s.src) && !bytes.ContainsRune([]byte(",]}#\n"), rune(s.src[s.i])) {
			s.i++
		}
	}
}

// text skips a string of any of the four kinds.
func (s *tomlScan) text() {
	quote := s.src[s.i]
	triple := bytes.Repeat([]byte{quote}, 3)
	if bytes.HasPrefix(s.src[s.i:], triple) {
		s.i += 3
		for s.i < len(s.src) && !bytes.HasPrefix(s.src[s.i:], triple) {
			if s.src[s.i] == '\\' && quote == '"' {
				s.i++
			}
			s.i++
		}
		s.i += 3
		// Up to two quotes more may belong to the text.
		for n := 0; n < 2 && s.i < len(s.src) && s.src[s.i] == quote; n++ {
			s.i++
		}
	} else {
		for s.i++; s.i < len(s.src) && s.src[s.i] != quote && s.src[s.i] != '\n'; s.i++ {
			if s.src[s.i] == '\\' && quote == '"' {
				s.i++
			}
		}
		s.i++
	}
	s.i = min(s.i, len(s.src))
}

func (s *tomlScan) space() {
	for s.i < len(s.src) && (s.src[s.i] == ' ' || s.src[s.i] == '\t') {
		s.i++
	}
}

// blank skips what may stand between two statements.
func (s *tomlScan) blank() {
	for s.i < len(s.src) {
		switch s.src[s.i] {
		case ' ', '\t', '\r', '\n':
			s.i++
		case '#':
			for s.i < len(s.src) && s.src[s.i] != '\n' {
				s.i++
			}
		default:
			return
		}
	}
}

// separators skips what may stand between two elements of an array.
func (s *tomlScan) separators() {
	for s.blank(); s.i < len(s.src) && s.src[s.i] == ','; s.blank() {
		s.i++
	}
}

func isBareKey(c byte) bool {
	return c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// lines turns byte offsets of a text into positions.
type lines struct {
	file   string
	src    []byte
	starts []int
}

func newLines(file string, src []byte) *lines {
	l := &lines{file: file, src: src, starts: []int{0}}
	for i, c := range src {
		if c == '\n' {
			l.starts = append(l.starts, i+1)
		}
	}
	return l
}

// pos returns the position of a byte offset.
func (l *lines) pos(offset int) Pos {
	offset = max(0, min(offset, len(l.src)))
	line := sort.SearchInts(l.starts, offset+1)
	return Pos{l.file, line, utf8.RuneCount(l.src[l.starts[line-1]:offset]) + 1}
}
