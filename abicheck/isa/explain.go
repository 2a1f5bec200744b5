package isa

import "github.com/thox-ai/thoxbuild/abicheck/rule"

var objectRules = []rule.Info{{
	ID: "ISA-COMDAT", Severity: rule.Error,
	Title: "an ISA unit offers an inline function that other objects may get",
	Explain: `Inline functions, templates and vtables are emitted in every object that uses
them, and a linker keeps one copy: usually that of the first object on its
command line. If the copy of a unit compiled with -mavx2 wins, callers in
baseline objects run it without any CPU test and die of SIGILL on an older
processor. Which copy wins changes with the order of objects, with archives and
with the compiler, so the unit must not offer any copy with code above the
baseline.

The rule looks at whole COMDAT groups, whatever the binding of the symbols in
them: compilers put local helpers and initialisers of a variable into its
group, and the linker keeps or drops the group as one. Hidden visibility and
version scripts do not help; they act after the choice.

Put helpers in an anonymous namespace, take raw pointers instead of library
types, or set isolate = true: the builder then dissolves the unit's groups
(ld -r --force-group-allocation) and localises everything but its entries.`,
}, {
	ID: "ISA-COMDAT-MIXED", Severity: rule.Error,
	Title: "a baseline object compiles a shared inline function for more",
	Explain: `A #pragma GCC target or -m flag in front of an #include makes the header's inline
functions need that feature, in an object that any processor runs. Names of the
standard library, c10, at and torch are always shared; other names are judged
by whether copies of them in the link differ.

Move the pragma behind every #include.`,
}, {
	ID: "ISA-TARGET-INLINE", Severity: rule.Warning,
	Title: "an inline function of a baseline object needs a CPU test at every caller",
	Explain: `The function carries a target attribute and all its copies agree, so the linker
cannot pick a wrong one. Nothing keeps a caller from calling it untested.

Make it static, or define it once in an ISA unit.`,
}, {
	ID: "ISA-COMDAT-SHARED", Severity: rule.Warning,
	Title: "an ISA unit shares an inline function with the baseline",
	Explain: `The copy in the unit holds no instruction above the baseline today. The next
compiler, or -O3, may vectorise it, and no test would show that the wrong
copy won.`,
}, {
	ID: "ISA-INIT", Severity: rule.Error,
	Title: "code above the baseline runs when the library is loaded",
	Explain: `A global with a constructor, or a function with the constructor attribute, runs
from .init_array before any code of the library can test the CPU. On an older
processor dlopen itself dies of SIGILL.

An error when a walk from the initialiser reaches such code outside a CPU test;
a warning when the unit has an initialiser at all.`,
}, {
	ID: "ISA-IFUNC", Severity: rule.Error,
	Title: "an IFUNC resolver itself needs more than the baseline",
	Explain: `The dynamic linker calls resolvers while it relocates the library. A resolver
must be compiled for the baseline and may only test the CPU.`,
}, {
	ID: "ISA-ENTRY", Severity: rule.Error,
	Title: "an ISA unit's entries are not what was declared",
	Explain: `The dispatcher may call the declared entries of a unit, after a CPU test, and
nothing else. A global function above the baseline that is not declared, a
declared one that does not exist, or one that two units define, breaks that.`,
}, {
	ID: "ISA-ENTRY-VIS", Severity: rule.Warning,
	Title: "an entry of an ISA unit is exported",
	Explain: `With default visibility another library can call the entry untested, or put its
own function of that name in its place. Compile units with -fvisibility=hidden.`,
}, {
	ID: "ISA-BASE", Severity: rule.Error,
	Title: "a baseline object contains code above the baseline",
	Explain: `A function that is no inline copy has instructions that the oldest processor
lacks, and the object was not declared as an ISA unit. Static functions that are
only reached behind a CPU test in the same object are noted, and so are the
versions that a resolver of the object picks (target_clones).`,
}, {
	ID: "ISA-LTO", Severity: rule.Error,
	Title: "an object with link-time-optimisation bytecode only",
	Explain: `Its code is generated during the link, across units of different ISAs; released
libraries merged an AVX2 initialiser into the common one that way. Compile with
-fno-lto.`,
}}

var libraryRules = []rule.Info{{
	ID: "ISA-PROV", Severity: rule.Error,
	Title: "code above the baseline that no ISA unit accounts for",
	Explain: `When the objects of a link are known, every function above the baseline in the
linked file must be a local function or a declared entry of an ISA unit. Bodies
are compared without what a linker fills in (addresses, relaxed GOT accesses),
so the file may be stripped. A body that is the COMDAT copy of a unit has
leaked: baseline callers get it. One that no object has comes from an archive,
from link-time optimisation, or from a rewritten thread-local access.`,
}, {
	ID: "ISA-LOAD", Severity: rule.Error,
	Title: "code above the baseline runs while the library is loaded",
	Explain: `The walk starts where a loader calls: DT_INIT, the init and fini arrays, and IFUNC
resolvers; in a Mach-O file __mod_init_func and __init_offsets. It follows direct calls and calls through the GOT, and stops at a
CPU test: a conditional jump that depends on cpuid, xgetbv, __cpu_model and, on
AArch64, on getauxval, an identification register (mrs ID_AA64...), the
argument of an IFUNC resolver or __aarch64_have_lse_atomics, or on what was
stored from them. What it reaches runs on every
processor that loads the file.

Indirect calls are not followed, so silence is no proof.`,
}, {
	ID: "ISA-CALL", Severity: rule.Error,
	Title: "code above the baseline is reached without a CPU test",
	Explain: `The walk of ISA-LOAD from the exported functions (an error for a library that
was built here) and from functions whose address lies in data (a warning: a
test may have happened in another frame). Whether a test asks for the right
feature is not decided. For a foreign library this is a note, because some export
variants for a named processor on purpose; one with more than 64 MB of code is
looked at only by --strict.

A test counts when its outcome reaches the branch through registers, flags,
variables, function pointers, parameters, captured variables or the results of
functions in this file. A choice that is made elsewhere, or kept on the heap,
has to be named in build.toml: guards are functions or data that hold the
outcome, dispatchers are functions that are trusted to test.`,
}, {
	ID: "ISA-EXPORT", Severity: rule.Warning,
	Title: "a function above the baseline is exported",
	Explain: `Other libraries can call it without a test. A weak one may even take the place of
their own copies when this library is loaded first into the global scope.`,
}, {
	ID: "ISA-NOTE", Severity: rule.Error,
	Title: "the property note asks for more than the baseline",
	Explain: `GNU_PROPERTY_X86_ISA_1_NEEDED makes glibc 2.33 and later refuse the file on an
older processor, whatever the code does.`,
}, {
	ID: "ISA-COVER", Severity: rule.Warning,
	Title: "executable bytes that belong to no known function",
	Explain: `Functions come from the symbol tables and from unwind information, in a Mach-O file
from the linker's list of their starts. Hand-written
assembly may have neither; its code above the baseline cannot be attributed.
Bytes that do not decode are data and are not counted as code.`,
}}
