package manifests

import (
	"strings"
	"testing"
	"time"
)

const nastyTOML = "# é comment with [brackets] = \"x\"\r\n" +
	"title = \"ünï \\\"q\\\" # no comment\" # [a]\n" +
	"  dotted . \"qu.oted\" . 'lit' = 1979-05-27 07:32:00\n" +
	"arr = [ 1, # one\n  [ 'a', \"b]\" ],\n\t{ x = 1, y.z = [2] } ,\n]\n" +
	"ml = \"\"\"\nkey = 1 \\\"\"\"\n[not.a.table]\"\"\"\"\"\n" +
	"ml2 = '''it''s'''\n" +
	"[ kernel . a ]\nf = -1.5e3\nb = true\n" +
	"[[prod]]\nname = 'é' \n[[prod]]\nname='h'\n[prod.sub]\nq = 2\n[[prod.deep]]\nr = 3\n" +
	"[kernel]\ntop = 0x1f\n"

func TestTOMLPositions(t *testing.T) {
	root, prob := parseTOML("t.toml", []byte(nastyTOML))
	if prob != nil {
		t.Fatal(prob)
	}
	got := map[string][2]Pos{}
	walk(root, func(n *node) { got[n.path] = [2]Pos{n.key, n.pos} })
	for path, want := range map[string][4]int{ // key line, key col, value line, value col
		"title":                {2, 1, 2, 9},
		"dotted":               {3, 3, 3, 3},
		`dotted."qu.oted"`:     {3, 12, 3, 12},
		`dotted."qu.oted".lit`: {3, 24, 3, 32},
		"arr":                  {4, 1, 4, 7},
		"arr[0]":               {4, 9, 4, 9},
		"arr[1]":               {5, 3, 5, 3},
		"arr[1][1]":            {5, 10, 5, 10},
		"arr[2].x":             {6, 4, 6, 8},
		"arr[2].y.z[0]":        {6, 18, 6, 18},
		"ml":                   {8, 1, 8, 6},
		"ml2":                  {11, 1, 11, 7},
		"kernel.a":             {12, 12, 12, 1},
		"kernel.a.f":           {13, 1, 13, 5},
		"kernel.a.b":           {14, 1, 14, 5},
		"prod":                 {15, 3, 15, 1},
		"prod[0].name":         {16, 1, 16, 8},
		"prod[1].name":         {18, 1, 18, 6},
		"prod[1].sub":          {19, 7, 19, 1},
		"prod[1].sub.q":        {20, 1, 20, 5},
		"prod[1].deep[0].r":    {22, 1, 22, 5},
		"kernel":               {23, 2, 23, 1},
		"kernel.top":           {24, 1, 24, 7},
	} {
		g, ok := got[path]
		if !ok {
			t.Errorf("%s: not found", path)
			continue
		}
		if flat := [4]int{g[0].Line, g[0].Col, g[1].Line, g[1].Col}; flat != want {
			t.Errorf("%s: key and value at %v, want %v", path, flat, want)
		}
	}
}

func walk(n *node, f func(*node)) {
	f(n)
	for _, e := range n.list {
		walk(e, f)
	}
	if n.table != nil {
		for _, k := range n.table.keys {
			walk(n.table.vals[k], f)
		}
	}
}

// FuzzTOMLPositions holds that every value has a place and that the text
// there starts like a value of its type.
func FuzzTOMLPositions(f *testing.F) {
	f.Add(nastyTOML)
	f.Add("a = [[],{},[{b=[[1]]}]]\n'' = 1\n\"\\u00e9\".x = 2")
	f.Add("x = '''''a'''''\ny={a.b=1,a.c=2}\n[y2]\n[[y2.z]]\n[y2.z.q]\n")
	f.Fuzz(func(t *testing.T, text string) {
		root, prob := parseTOML("f", []byte(text))
		if prob != nil {
			return
		}
		text = strings.TrimPrefix(text, "\ufeff")
		lines := strings.Split(text, "\n")
		if strings.Contains(text, `\u0000`) || strings.Contains(text, `\U00000000`) || strings.Contains(text, `\x00`) {
			return // see joinPath
		}
		walk(root, func(n *node) {
			if n == root {
				return
			}
			if strings.Contains(n.path, `"[`) || strings.Contains(n.path, `.[`) || strings.HasPrefix(n.path, "[") {
				return // a key that looks like an index is only shown wrongly
			}
			if !n.key.IsValid() || !n.pos.IsValid() {
				t.Fatalf("%q has no place in %q", n.path, text)
			}
			line := []rune(lines[n.pos.Line-1])
			if n.pos.Col-1 >= len(line) {
				t.Fatalf("%q stands behind the end of line %d of %q", n.path, n.pos.Line, text)
			}
			c, ok := line[n.pos.Col-1], false
			switch v := n.scalar.(type) {
			case string:
				ok = c == '"' || c == '\''
			case bool:
				ok = c == 't' && v || c == 'f' && !v
			case int64:
				ok = strings.ContainsRune("+-0123456789", c)
			case float64:
				ok = strings.ContainsRune("+-0123456789in", c)
			case time.Time:
				ok = c >= '0' && c <= '9'
			default:
				ok = true
			}
			if !ok {
				t.Fatalf("%q (%s) points at %q in %q", n.path, n.kind(), c, text)
			}
		})
	})
}
