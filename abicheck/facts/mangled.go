package facts

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// maxMangled bounds what is parsed; the longest name that torch exports has
// about 5,000 bytes.
const maxMangled = 16 << 10

// maxNodes bounds the walk over a parsed name, and maxText the text that is
// made of one (as a power of two).
const (
	maxNodes = 20000
	maxText  = 14
)

// torchNamespaces are the C++ namespaces of torch's unstable interface.
var torchNamespaces = map[string]bool{"c10": true, "at": true, "torch": true, "caffe2": true, "c10d": true}

// torchScope returns the torch namespace that a mangled name lives in or
// takes its types from, such as "at" for at::empty, for "typeinfo for
// at::Tensor", and for a function whose template argument is at::Tensor. It
// is empty for names without one, and for those whose only ones are
// torch::stable and torch::headeronly, which promise to stay.
//
// The name is parsed, not its demangled text searched: that text starts with
// the return type, or with "vtable for".
func torchScope(name string) string {
	if !strings.HasPrefix(name, "_Z") || !mayHoldTorch(name) {
		return ""
	}
	if len(name) > maxMangled {
		return "torch" // longer than any name that can be judged
	}
	ast, err := demangle.ToAST(name)
	if err != nil {
		return ""
	}
	found, nodes := "", 0
	ast.Traverse(func(a demangle.AST) bool {
		// Substitutions make the tree a graph: its nodes can be met 2^n times.
		if nodes++; nodes > maxNodes {
			return false
		}
		if q, ok := a.(*demangle.Qualified); ok && found == "" {
			found = unstable(q)
		}
		return found == ""
	})
	return found
}

// mayHoldTorch is a quick test that refuses most names without parsing.
func mayHoldTorch(name string) bool {
	for _, s := range []string{"2at", "3c10", "5torch", "6caffe2", "4c10d"} {
		if strings.Contains(name, s) {
			return true
		}
	}
	return false
}

func unstable(q *demangle.Qualified) string {
	ns := astName(q.Scope)
	if !torchNamespaces[ns] {
		return ""
	}
	if ns == "torch" {
		if in := astName(q.Name); in == "stable" || in == "headeronly" {
			return ""
		}
	}
	return ns
}

// astName is the plain identifier of a name, without template arguments and
// ABI tags.
func astName(a demangle.AST) string {
	switch a := a.(type) {
	case *demangle.Name:
		return a.Name
	case *demangle.Template:
		return astName(a.Name)
	case *demangle.TaggedName:
		return astName(a.Name)
	}
	return ""
}

// oldString reports whether a name takes or returns the std::string of the
// old C++ ABI, which lies in std itself and not in std::__cxx11.
func oldString(name string) bool {
	if !strings.Contains(name, "Ss") && !strings.Contains(name, "Sb") {
		return false
	}
	if len(name) > maxMangled {
		return false
	}
	text, err := demangle.ToString(name, demangle.NoClones, demangle.MaxLength(maxText))
	if err != nil {
		return false
	}
	for rest := text; ; {
		i := strings.Index(rest, "std::")
		if i < 0 {
			return false
		}
		rest = rest[i+len("std::"):]
		if strings.HasPrefix(rest, "basic_string<") || strings.HasPrefix(rest, "string") && !strings.HasPrefix(rest, "string_view") && !strings.HasPrefix(rest, "stringstream") {
			return true
		}
	}
}
