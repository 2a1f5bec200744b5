// Package load makes stand-ins for the libraries of a torch installation, with
// which a built extension can be loaded where that torch is not: on this
// machine, or as a program of another processor under qemu-user.
//
// A stand-in defines a name only if the real torch release exports it (package
// torchexports), so an extension that needs more fails to load as it would in
// that torch. The dynamic linker, the C and C++ libraries and CUDA's runtime
// are the real ones.
//
// Functions do nothing but print their name and return their first argument,
// which is what a constructor, a method that returns *this and a function that
// fills its caller's object return. Three parsers of operator schemas return an
// object whose size the caller knows; they return one of zeros, of the size in
// the release's own headers. C functions return 0, the stable ABI's success.
// Data is zero.
//
// What it shows: relocation, symbol versions, the initialisers and the
// registration of the operators. What it can't show: that any operator works.
package load

import (
	"debug/elf"
	"fmt"
	"slices"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Stub is one stand-in library.
type Stub struct {
	// Soname is the file's name.
	Soname string
	// Names are the symbols that it defines.
	Names []string
	// Needed are other stand-ins that it loads.
	Needed []string
}

// python stands for the interpreter.
const python = "libpython-stub.so"

// gomp is loaded by torch's own libraries; extensions don't name it.
const gomp = "libgomp.so.1"

// Plan tells which stand-ins a library needs, by what it needs itself. exports
// answers for torch's libraries. Names that nobody exports are in no stub, and
// are listed in missing.
func Plan(lib *elf.File, exports interface{ Has(string) bool }) (stubs []Stub, missing []string, err error) {
	needed, err := lib.ImportedLibraries()
	if err != nil {
		return nil, nil, err
	}
	syms, err := lib.DynamicSymbols()
	if err != nil {
		return nil, nil, err
	}
	var torch, py, omp []string
	for _, s := range syms {
		// A name with a version comes from a library that is really there.
		if s.Section != elf.SHN_UNDEF || s.Name == "" || s.Version != "" || elf.ST_BIND(s.Info) == elf.STB_LOCAL {
			continue
		}
		switch {
		case exports.Has(s.Name):
			torch = append(torch, s.Name)
		case strings.HasPrefix(s.Name, "Py") || strings.HasPrefix(s.Name, "_Py"):
			py = append(py, s.Name)
		case strings.HasPrefix(s.Name, "GOMP_") || strings.HasPrefix(s.Name, "omp_"):
			omp = append(omp, s.Name)
		case s.Name == "__tls_get_addr", elf.ST_BIND(s.Info) == elf.STB_WEAK: // of the dynamic linker; may be absent
		default:
			missing = append(missing, s.Name)
		}
	}
	stubs = []Stub{{Soname: python, Names: py}, {Soname: gomp, Names: omp}}
	// Which of torch's libraries defines a name makes no difference to the
	// dynamic linker. The first that is needed defines all.
	for _, n := range needed {
		if !strings.HasPrefix(n, "libtorch") && !strings.HasPrefix(n, "libc10") {
			continue
		}
		s := Stub{Soname: n}
		if torch != nil {
			s.Names, torch = torch, nil
			s.Needed = []string{gomp}
		}
		stubs = append(stubs, s)
	}
	missing = append(missing, torch...) // needs torch's names and none of its libraries
	slices.Sort(missing)
	return stubs, missing, nil
}

type parser struct {
	name, result string
	schema       bool
}

// parsers are the functions whose result the caller takes apart, by the readable
// form up to the parameters, with the type of the result and whether the first
// parameter is the text of a schema.
var parsers = []parser{
	{"torch::jit::parseSchema(", "c10::FunctionSchema", true},
	{"torch::jit::parseSchemaOrName(", "std::variant<c10::OperatorName, c10::FunctionSchema>", true},
	{"torch::jit::parseName(", "c10::OperatorName", true},
	{"c10::detail::infer_schema::make_function_schema(", "c10::FunctionSchema", false},
}

const prologue = `#include <cstdio>
#define EXPORT __attribute__((visibility("default")))
static void called(const char* name) { dprintf(1, "call %s\n", name); }
`

// parserPrologue: an object of class Zeros is returned like any class with a
// destructor, in memory of the caller.
const parserPrologue = `#include <variant>
#include <ATen/core/function_schema.h>
#include <ATen/core/operator_name.h>
template <size_t N> struct Zeros { char bytes[N]; Zeros() : bytes{} {} Zeros(const Zeros&) = delete; ~Zeros() {} };
`

// Source is the C++ text of a stub without the parsers among its names.
func (s *Stub) Source() string {
	var b strings.Builder
	b.WriteString(prologue)
	for i, name := range s.Names {
		readable := demangle.Filter(name)
		// A declaration gives the symbol its name, the definition follows.
		declare := func(declaration, definition string) {
			fmt.Fprintf(&b, "extern \"C\" { EXPORT extern %s __asm__(%q); %s }\n", declaration, name, definition)
		}
		id := fmt.Sprintf("s%d", i)
		say := fmt.Sprintf("called(%q);", name)
		switch {
		case parserOf(readable) != nil:
		case strings.HasSuffix(name, "torch_library_def"), strings.HasSuffix(name, "torch_library_def_with_tags"):
			// The stable ABI's way to register an operator: (library, schema, ...).
			declare("int "+id+"(void*, const char*)", "int "+id+`(void*, const char* s) { dprintf(1, "schema %s\n", s); return 0; }`)
		case isData(name, readable):
			declare("char "+id+"[4096]", "alignas(64) char "+id+"[4096] = {};")
		case strings.HasPrefix(name, "_Z"):
			declare("void* "+id+"(void*)", "void* "+id+"(void* a) { "+say+" return a; }")
		case strings.HasPrefix(name, "Py"), strings.HasPrefix(name, "_Py"):
			// Most of Python's functions return an object, which nobody looks into.
			declare("void* "+id+"()", "void* "+id+"() { "+say+" static char object[256]; return object; }")
		default:
			declare("int "+id+"()", "int "+id+"() { "+say+" return 0; }")
		}
	}
	return b.String()
}

// ParserSource is the C++ text of the parsers among a stub's names. It takes
// torch's headers, for the sizes, and is empty where there are no parsers.
func (s *Stub) ParserSource() string {
	var b strings.Builder
	for i, name := range s.Names {
		p := parserOf(demangle.Filter(name))
		if p == nil {
			continue
		}
		arg, say := "", fmt.Sprintf("called(%q);", name)
		if p.schema {
			arg, say = "const std::string& s", `dprintf(1, "schema %s\n", s.c_str());`
		}
		result := fmt.Sprintf("Zeros<sizeof(%s)>", p.result)
		fmt.Fprintf(&b, "EXPORT %s p%d(%s) __asm__(%q);\n%s p%d(%s) { %s return {}; }\n", result, i, arg, name, result, i, arg, say)
	}
	if b.Len() == 0 {
		return ""
	}
	return prologue + parserPrologue + b.String()
}

func parserOf(readable string) *parser {
	for i := range parsers {
		if strings.HasPrefix(readable, parsers[i].name) {
			return &parsers[i]
		}
	}
	return nil
}

// isData tells names of objects: what C++ makes for a class, and a variable of
// a namespace or class, whose readable form has no parameters.
func isData(name, readable string) bool {
	for _, p := range []string{"_ZTV", "_ZTI", "_ZTS", "_ZTT", "_ZGV"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	if strings.HasPrefix(name, "Py") || strings.HasPrefix(name, "_Py") {
		return strings.HasPrefix(name, "PyExc_") || strings.HasSuffix(name, "_Type") || strings.HasSuffix(name, "Struct")
	}
	return readable != name && !strings.HasSuffix(readable, ")") && !strings.Contains(readable, ") ")
}
