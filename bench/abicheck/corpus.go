package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck"
)

// part is one source of a library of the corpus.
type part struct {
	source string // below abicheck/
	flags  string
	unit   bool // an ISA unit with the entry row_avx2
}

// fixture is a library with known defects. rules are the ids that it was made
// for; it may break others as well.
type fixture struct {
	name  string
	parts []part
	link  string
	rules []string
}

const (
	facts = "testdata/"
	isa   = "isa/testdata/src/"
	avx2  = "-mavx2 -mfma -mf16c -O2"
)

// module is the extension module with one macro and linker flags.
func module(name, macro, link string, rules ...string) fixture {
	return fixture{name, []part{{facts + "module.c", strings.TrimSpace("-O1 " + macro), false}}, "-Wl,-z,now " + link, rules}
}

// mixed is a library of an ISA unit and a baseline object, unit first.
func mixed(name, unit, flags, base, baseFlags, link string, rules ...string) fixture {
	return fixture{name, []part{{isa + unit, flags, true}, {isa + base, baseFlags, false}}, "-Wl,-z,now " + link, rules}
}

// corpus are the fixtures of abicheck's tests that are libraries for Linux.
var corpus = []fixture{
	module("clean module", "", ""),
	module("newer glibc symbol", "-DNEW_GLIBC", "", "MANYLINUX"),
	module("packed relocations", "-DOWN_PATH", "-Wl,-z,pack-relative-relocs", "MANYLINUX", "PATHS"),
	module("newer Python symbol", "-DNEW_PYTHON", "", "ABI3"),
	module("torch outside its stable ABI", "-DUNSTABLE_TORCH", "", "TORCH-STABLE"),
	module("build path inside", "-DOWN_PATH", "", "PATHS"),
	module("exported helper", "-DEXPORT", "", "EXPORTS"),
	module("static thread-local data", "-DSTATIC_TLS", "", "STATIC-TLS"),
	module("absolute RUNPATH", "", "-Wl,-rpath,/tmp/build/torch/lib", "RPATH"),
	module("no RELRO", "", "-Wl,-z,norelro", "RELRO"),
	{"executable stack", []part{{facts + "module.c", "-O1", false}, {facts + "noexec.S", "", false}}, "-Wl,-z,now -Wl,--no-warn-execstack", []string{"EXECSTACK"}},
	{"unique symbol", []part{{facts + "module.c", "-O1", false}, {facts + "unique.cc", "-O1 -fgnu-unique", false}}, "-Wl,-z,now", []string{"UNIQUE", "EXPORTS"}},

	// All of these export the function that the tests call.
	mixed("clean dispatch", "avx2_clean.cpp", avx2, "clean.c", "-O2", "", "EXPORTS"),
	mixed("clean dispatch by pointer", "avx2_clean.cpp", avx2, "clean_ptr.c", "-O2", "", "EXPORTS"),
	mixed("inline function leaks", "avx2_inline.cpp", avx2, "base_inline.cpp", "-O2", "", "ISA-COMDAT", "ISA-PROV"),
	mixed("template leaks", "avx2_template.cpp", avx2, "base_template.cpp", "-O2", "", "ISA-COMDAT", "ISA-PROV"),
	mixed("conversion leaks", "avx2_half.cpp", "-mavx2 -mfma -mf16c -O0", "base_half.cpp", "-O0", "", "ISA-COMDAT", "ISA-PROV"),
	mixed("std::vector leaks", "avx2_vector.cpp", avx2, "clean.c", "-O2", "", "ISA-COMDAT", "ISA-PROV"),
	mixed("virtual function leaks", "avx2_virtual.cpp", avx2, "clean.c", "-O2", "", "ISA-COMDAT", "ISA-PROV"),
	mixed("call without a CPU test", "avx2_clean.cpp", avx2, "unguarded.c", "-O2", "", "ISA-CALL"),
	mixed("AVX2 in an initialiser", "avx2_static_init.cpp", avx2+" -fvisibility=hidden", "clean.c", "-O2", "", "ISA-INIT", "ISA-LOAD"),
	mixed("AVX2 in a global's constructor", "avx2_global_vec.cpp", avx2+" -fvisibility=hidden", "clean.c", "-O2", "", "ISA-INIT", "ISA-LOAD"),
	{"AVX2 in an IFUNC resolver", []part{{isa + "ifunc_bad.c", avx2, true}}, "-Wl,-z,now", []string{"ISA-IFUNC", "ISA-LOAD"}},
	mixed("property note asks for v3", "avx2_clean.cpp", avx2, "clean.c", "-O2", "-Wl,-z,x86-64-v3", "ISA-NOTE"),
}

// build makes one fixture with g++ and returns the library and its objects.
func (s *fixture) build(ctx context.Context, dir string) (lib string, objects []abicheck.Object, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, err
	}
	unit := &abicheck.Unit{Name: "avx2", Features: []string{"avx2", "fma", "f16c"}, Entries: []string{"row_avx2"}}
	run := func(argv ...string) error {
		if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %s: %w\n%s", s.name, strings.Join(argv, " "), err, out)
		}
		return nil
	}
	link := []string{"g++", "-shared"}
	for i, p := range s.parts {
		cc, obj := "g++", filepath.Join(dir, fmt.Sprintf("%d.o", i))
		if !strings.HasSuffix(p.source, ".cpp") && !strings.HasSuffix(p.source, ".cc") {
			cc = "gcc"
		}
		argv := append([]string{cc, "-c", "-fPIC", "-w"}, strings.Fields(p.flags)...)
		if err := run(append(argv, "-o", obj, filepath.Join("abicheck", filepath.FromSlash(p.source)))...); err != nil {
			return "", nil, err
		}
		o := abicheck.Object{Path: obj}
		if p.unit {
			o.Unit = unit
		}
		objects, link = append(objects, o), append(link, obj)
	}
	lib = filepath.Join(dir, "_k.abi3.so")
	// auditwheel wants to see which C library a file is for.
	return lib, objects, run(append(append(link, strings.Fields(s.link)...), "-Wl,--no-as-needed", "-lc", "-o", lib)...)
}
