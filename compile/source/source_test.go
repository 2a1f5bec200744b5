package source

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestText(t *testing.T) {
	for text, want := range map[string]Scan{
		"":                                  {},
		"#include \"a.h\"\n":                {Includes: []Include{{"a.h", true, 1}}},
		"\n # \t include <a/b.h> // c":      {Includes: []Include{{"a/b.h", false, 2}}},
		"#include_next <x>\n#import \"y\"":  {Includes: []Include{{"x", false, 1}, {"y", true, 2}}},
		"#embed \"data.bin\"":               {Includes: []Include{{"data.bin", true, 1}}},
		"#include MACRO\n":                  {Computed: true},
		"#include EMBEDDED_METALLIB_HEADER": {},
		"int x; // #include \"no.h\"":       {},
		"#includes \"no.h\"":                {},
		"#include \"unterminated":           {Computed: true},
		"\ufeff#include \"a.h\"\r\nint x;\r\n#include \"b.h\"\r\n":                            {Includes: []Include{{"a.h", true, 1}, {"b.h", true, 3}}},
		"#include \"a.h\"\r#include \"b.h\"":                                                  {Includes: []Include{{"a.h", true, 1}, {"b.h", true, 2}}},
		"/* one */ # /* two */ include /* three */ \"a.h\" // four":                           {Includes: []Include{{"a.h", true, 1}}},
		"/*\n one */ #include \"a.h\"":                                                        {Includes: []Include{{"a.h", true, 2}}},
		"%: include \"a.h\"":                                                                  {Includes: []Include{{"a.h", true, 1}}},
		"int x;\n#\\\n inc\\ \nlude \"a.h\"\nint y;\n#include <b>":                            {Includes: []Include{{"a.h", true, 2}, {"b", false, 6}}},
		"x = a % :: b; # include \"no.h\"":                                                    {},
		"#include <>\n":                                                                       {Computed: true},
		"TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {}":                                  {Name: NameWrapped},
		"TORCH_LIBRARY_IMPL_EXPAND( TORCH_EXTENSION_NAME , CPU, m) {}":                        {Name: NameWrapped},
		"STABLE_TORCH_LIBRARY_EXPAND(\n  TORCH_EXTENSION_NAME, m) {}":                         {Name: NameWrapped},
		"REGISTER_EXTENSION(TORCH_EXTENSION_NAME)":                                            {Name: NameWrapped},
		"REGISTER_EXTENSION(TORCH_EXTENSION_NAME) f(TORCH_EXTENSION_NAME)":                    {Name: NameFree},
		"TORCH_LIBRARY(TORCH_EXTENSION_NAME, m) {}":                                           {Name: NameFree},
		"PYBIND11_MODULE(mine, m) {}":                                                         {Name: NameFree},
		"// TORCH_EXTENSION_NAME is explained here\nREGISTER_EXTENSION(TORCH_EXTENSION_NAME)": {Name: NameWrapped},
		"MY_TORCH_EXTENSION_NAME":                                                             {},
	} {
		if diff := cmp.Diff(want, Text([]byte(text))); diff != "" {
			t.Errorf("%q:\n%s", text, diff)
		}
	}
}

func set(files map[string]string) Set {
	s := Set{}
	for name, text := range files {
		s[name] = Text([]byte(text))
	}
	return s
}

func TestUnit(t *testing.T) {
	s := set(map[string]string{
		"csrc/a.cpp":      "#include \"a.h\"\n#include <common/x.h>\n#include <vector>",
		"csrc/a.h":        "#include \"deep.h\"",
		"csrc/deep.h":     "#include \"a.h\"", // a circle
		"inc/common/x.h":  "#include \"y.h\"",
		"inc/common/y.h":  "",
		"csrc/other.h":    "",
		"torch-ext/b.cpp": "#include <torch/library.h>\n#include \"gone.h\"",
		"csrc/c.cpp":      "#include MACRO\n",
		"csrc/d.cpp":      "#include \"Python.h\"",
		"torch/mine.h":    "",
		"csrc/e.cpp":      "#include \"torch/mine.h\"",
		"csrc/f.cpp":      "#include </opt/x.h>",
	})
	for _, c := range []struct {
		src  string
		dirs []string
		want Unit
	}{
		{"csrc/a.cpp", []string{"inc"}, Unit{Files: []string{"csrc/a.cpp", "csrc/a.h", "csrc/deep.h", "inc/common/x.h", "inc/common/y.h"}}},
		{"csrc/a.cpp", nil, Unit{Files: []string{"csrc/a.cpp", "csrc/a.h", "csrc/deep.h"}}},
		{"torch-ext/b.cpp", nil, Unit{Files: []string{"torch-ext/b.cpp"}, Torch: true, Missing: []Missing{{"torch-ext/b.cpp", 2, "gone.h"}}}},
		{"csrc/c.cpp", nil, Unit{Torch: true, Files: []string{"csrc/a.h", "csrc/c.cpp", "csrc/deep.h", "csrc/other.h", "inc/common/x.h", "inc/common/y.h", "torch/mine.h"}}},
		{"csrc/d.cpp", nil, Unit{Files: []string{"csrc/d.cpp"}, Python: true}},
		// The kernel's own folder of that name is not torch's.
		{"csrc/e.cpp", []string{"."}, Unit{Files: []string{"csrc/e.cpp", "torch/mine.h"}}},
		{"csrc/e.cpp", nil, Unit{Files: []string{"csrc/e.cpp"}, Torch: true}},
		{"csrc/f.cpp", nil, Unit{Files: []string{"csrc/f.cpp"}, Absolute: []Missing{{"csrc/f.cpp", 1, "/opt/x.h"}}}},
	} {
		if diff := cmp.Diff(c.want, s.Unit(c.src, c.dirs)); diff != "" {
			t.Errorf("%s with %q:\n%s", c.src, c.dirs, diff)
		}
	}
}

// Every include that a compiler would see at the start of a line is found.
func FuzzText(f *testing.F) {
	f.Add("int x;\n", "a/b.h")
	f.Add("/*\n", "x.h")
	f.Add("R\"(\n", "y")
	f.Add("// \\\r\nint x;", "y")
	f.Fuzz(func(t *testing.T, before, name string) {
		for _, c := range []byte(name) {
			if c < ' ' || c == '"' || c >= 0x7f {
				return
			}
		}
		if name == "" {
			return
		}
		if _, more := continued([]byte(strings.TrimSuffix(before, "\r"))); more {
			return // the line is no line of its own
		}
		got := Text([]byte(before + "\n#include \"" + name + "\"\n" + before))
		if !slices.ContainsFunc(got.Includes, func(i Include) bool { return i.Path == name && i.Quoted }) {
			t.Errorf("%q after %q is not found", name, before)
		}
	})
}
