package manifests

import (
	"bytes"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// maxManifestBytes bounds what is read into memory. The largest build.toml in
// use lists some thousand sources in under 200 kB.
const maxManifestBytes = 4 << 20

// node is a TOML value with its place.
type node struct {
	// path is the dotted key for messages, such as kernel.rms.src[2].
	path string
	// key and pos are where the key and the value stand.
	key, pos Pos
	// Exactly one of these describes the value; scalar is a string, int64,
	// float64, bool or time.Time.
	scalar any
	list   []*node
	table  *table

	offset int
}

// table is a TOML table with its keys in the order of the file.
type table struct {
	keys []string
	vals map[string]*node
}

// kind names the type of a value for messages.
func (n *node) kind() string {
	switch {
	case n.table != nil:
		return "a table"
	case n.list != nil:
		return "an array"
	}
	switch n.scalar.(type) {
	case string:
		return "a string"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case bool:
		return "a boolean"
	case time.Time:
		return "a date or time"
	}
	return "an unknown value"
}

// parseTOML reads a text into nodes. The error is a Problem of that file.
func parseTOML(file string, data []byte) (*node, *Problem) {
	fail := func(pos Pos, id, msg, hint string) (*node, *Problem) {
		return nil, &Problem{Pos: pos, Severity: Error, ID: id, Message: msg, Hint: hint}
	}
	if len(data) > maxManifestBytes {
		return fail(Pos{File: file}, "build/too-large", fmt.Sprintf("%d bytes: expected at most %d", len(data), maxManifestBytes), "")
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	l := newLines(file, data)
	var root map[string]any
	if err := toml.Unmarshal(data, &root); err != nil {
		var perr toml.ParseError
		if errors.As(err, &perr) {
			return fail(l.pos(perr.Position.Start), "build/syntax", "not valid TOML: "+perr.Message, "")
		}
		return fail(Pos{File: file}, "build/syntax", "not valid TOML: "+err.Error(), "")
	}
	j := joiner{lines: l, at: scanTOML(data)}
	return j.node(nil, root), nil
}

// joiner puts the library's values and the scanner's places together.
type joiner struct {
	*lines
	at map[string]tomlSpan
}

func (j joiner) node(path []string, v any) *node {
	n := &node{path: displayPath(path)}
	if span, ok := j.at[joinPath(path)]; ok {
		n.key, n.pos, n.offset = j.pos(span.key), j.pos(span.val), span.key
	} else {
		n.key, n.pos = Pos{File: j.file}, Pos{File: j.file}
	}
	down := path[:len(path):len(path)]
	switch v := v.(type) {
	case map[string]any:
		n.table = &table{vals: map[string]*node{}}
		for k, e := range v {
			n.table.keys = append(n.table.keys, k)
			n.table.vals[k] = j.node(append(down, k), e)
		}
		sort.Slice(n.table.keys, func(a, b int) bool {
			na, nb := n.table.vals[n.table.keys[a]], n.table.vals[n.table.keys[b]]
			if na.offset != nb.offset {
				return na.offset < nb.offset
			}
			return n.table.keys[a] < n.table.keys[b]
		})
	case []map[string]any:
		n.list = []*node{}
		for i, e := range v {
			n.list = append(n.list, j.node(append(down, indexPart(i)), e))
		}
	case []any:
		n.list = []*node{}
		for i, e := range v {
			n.list = append(n.list, j.node(append(down, indexPart(i)), e))
		}
	default:
		n.scalar = v
	}
	return n
}

// KeyPath joins keys to the dotted form that Problem.Key has and the Pos
// methods take, quoting what must be: kernel."a.b".src.
func KeyPath(keys ...string) string { return displayPath(keys) }

// displayPath prints a path as a person writes it, quoting what must be.
func displayPath(path []string) string {
	var b strings.Builder
	for i, part := range path {
		if strings.HasPrefix(part, "[") && strings.HasSuffix(part, "]") {
			b.WriteString(part)
			continue
		}
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(quoteKey(part))
	}
	return b.String()
}

// quoteKey prints a key bare where TOML allows it.
func quoteKey(k string) string {
	bare := k != ""
	for i := range len(k) {
		bare = bare && isBareKey(k[i])
	}
	if bare {
		return k
	}
	return quoteTOML(k)
}

// quoteTOML prints a basic string.
func quoteTOML(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// unquoteKey reads one quoted key, escapes included.
func unquoteKey(raw []byte) string {
	var m map[string]any
	if err := toml.Unmarshal(append(append([]byte{}, raw...), "=0"...), &m); err == nil {
		for k := range m {
			return k
		}
	}
	return string(raw)
}
