// Package source finds what a translation unit reads of its kernel: the
// source, and the declared files that it includes, directly or not.
//
// An edit of a header then rebuilds the units that include it and no others,
// and a file that no manifest lists is no input, so the compiler can't find it.
package source

import (
	"bytes"
	"regexp"
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

var (
	directive = regexp.MustCompile(`^[ \t]*#[ \t]*(?:include|include_next|import|embed)\b[ \t]*(.*)`)
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
	var s Scan
	line := 0
	for rest := b; len(rest) > 0; {
		line++
		var l []byte
		l, rest, _ = bytes.Cut(rest, []byte("\n"))
		if !bytes.Contains(l, []byte("#")) {
			continue
		}
		m := directive.FindSubmatch(l)
		if m == nil {
			continue
		}
		arg := bytes.TrimSpace(m[1])
		if p, quoted, ok := delimited(arg); ok {
			s.Includes = append(s.Includes, Include{string(p), quoted, line})
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
