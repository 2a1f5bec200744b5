// Package source finds what a translation unit reads of its kernel: the
// source, and the declared files that it includes, directly or not.
//
// An edit of a header then rebuilds the units that include it and no others,
// and a file that no manifest lists is no input, so the compiler can't find it.
package source

import (
	"bytes"
	"regexp"
	"slices"
)

// Scan is what one file's text says about its dependencies. It is a superset:
// directives inside comments or inactive branches count.
type Scan struct {
	Includes []Include `json:"includes,omitempty"`
	// Computed is set by an include whose name is a macro: what it reads can't
	// be told from the text.
	Computed bool `json:"computed,omitempty"`
	// Name says how the text uses TORCH_EXTENSION_NAME.
	Name NameUse `json:"name,omitempty"`
}

// Include is one #include, #import or #embed.
type Include struct {
	Path string `json:"p"`
	// Quoted is set by "...", which looks beside the including file first.
	Quoted bool `json:"q,omitempty"`
	Line   int  `json:"l"`
}

// NameUse says how a text uses TORCH_EXTENSION_NAME.
type NameUse int

// The uses of the extension's name, from none to any.
const (
	// NameUnused: the text does not mention it.
	NameUnused NameUse = iota
	// NameWrapped: only as the argument of the macros of registration.h, which
	// can take the name at link time.
	NameWrapped
	// NameFree: anywhere else, so the compiler has to know it.
	NameFree
)

// space is what may stand between the words of a directive.
const space = `(?:[ \t\f\v]|/\*.*?\*/)*`

var (
	// A comment counts as a space, also one that began on an earlier line.
	directive = regexp.MustCompile(`^(?:.*?\*/)?` + space + `(?:#|%:)` + space + `(?:include|include_next|import|embed)\b` + space + `(.*)`)
	nameUse   = regexp.MustCompile(`\bTORCH_EXTENSION_NAME\b`)
	// wrappedUse is one use that registration.h serves. The macros without
	// _EXPAND would paste the token itself.
	wrappedUse = regexp.MustCompile(`\b(?:(?:STABLE_)?TORCH_LIBRARY(?:_IMPL|_FRAGMENT)?_EXPAND\s*\(\s*TORCH_EXTENSION_NAME\s*,|REGISTER_EXTENSION\s*\(\s*TORCH_EXTENSION_NAME\s*\))`)
	// freeModule is a module that does not come from registration.h.
	freeModule  = regexp.MustCompile(`\bPYBIND11_MODULE\b|\bPyInit_|\bTORCH_MODULE_FRAGMENT\b`)
	lineComment = regexp.MustCompile(`//[^\n]*`)
)

// metallibHeader is a macro whose value the build itself defines.
const metallibHeader = "EMBEDDED_METALLIB_HEADER"

// Text scans the text of a file.
func Text(b []byte) Scan {
	b = plainLines(b)
	var s Scan
	line := 0
	for rest := b; len(rest) > 0; {
		at := line + 1
		l, n := cutLine(&rest)
		line += n
		if !bytes.Contains(l, []byte("#")) && !bytes.Contains(l, []byte("%:")) {
			continue
		}
		m := directive.FindSubmatch(l)
		if m == nil {
			continue
		}
		arg := bytes.TrimSpace(m[1])
		if p, quoted, ok := delimited(arg); ok {
			s.Includes = append(s.Includes, Include{string(p), quoted, at})
		} else if len(arg) > 0 && string(arg) != metallibHeader {
			s.Computed = true
		}
	}
	code := lineComment.ReplaceAll(b, nil)
	switch all := len(nameUse.FindAll(code, -1)); {
	case freeModule.Match(code) || all > len(wrappedUse.FindAll(code, -1)):
		s.Name = NameFree
	case all > 0:
		s.Name = NameWrapped
	}
	return s
}

// plainLines leaves out what editors put before a text, and ends every line
// with a newline alone; compilers take a carriage return for the same.
func plainLines(b []byte) []byte {
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	if bytes.IndexByte(b, '\r') >= 0 {
		b = bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	}
	return b
}

// cutLine takes the next line off a text, with those that continue it, and
// counts them.
func cutLine(rest *[]byte) (l []byte, n int) {
	for more := true; more && len(*rest) > 0; n++ {
		var part []byte
		part, *rest, _ = bytes.Cut(*rest, []byte("\n"))
		part, more = continued(part)
		if n == 0 {
			l = slices.Clip(part) // what is appended goes elsewhere
		} else {
			l = append(l, part...)
		}
	}
	return l, n
}

// continued tells whether the next line belongs to this one, and takes the mark
// away. Compilers allow spaces behind it.
func continued(l []byte) (rest []byte, more bool) {
	return bytes.CutSuffix(bytes.TrimRight(l, " \t\f\v"), []byte("\\"))
}

// delimited takes the path out of "..." or <...>.
func delimited(arg []byte) (path []byte, quoted, ok bool) {
	if len(arg) == 0 {
		return nil, false, false
	}
	end := map[byte]string{'"': `"`, '<': ">"}[arg[0]]
	if end == "" {
		return nil, false, false
	}
	path, _, ok = bytes.Cut(arg[1:], []byte(end))
	return path, end == `"`, ok && len(path) > 0
}
