package compile

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/compile/glue"
	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/matrix"
)

// sharedStandard is the C++ standard of units that include no torch header:
// one choice for all torch versions, so that they share the object.
const sharedStandard = "c++20"

// cxxStandard is the flag for a unit.
func cxxStandard(ts *Toolset, torch bool) string {
	if torch && ts.TorchStandard != "" {
		return "-std=" + ts.TorchStandard
	}
	return "-std=" + sharedStandard
}

// backendDefines tell a source which backend it is compiled for.
func backendDefines(b manifests.Backend) []string {
	switch b {
	case manifests.CUDA:
		return []string{"-DCUDA_KERNEL", "-DUSE_CUDA=1"}
	case manifests.ROCm:
		return []string{"-DROCM_KERNEL", "-DUSE_ROCM=1", "-D__HIP_PLATFORM_AMD__=1"}
	case manifests.XPU:
		return []string{"-DXPU_KERNEL", "-DUSE_XPU"}
	case manifests.Metal:
		return []string{"-DMETAL_KERNEL"}
	default:
		return []string{"-DCPU_KERNEL"}
	}
}

// torchDefines are for units that see torch's headers.
func torchDefines(v matrix.Variant) []string {
	var d []string
	if v.Name.Framework == manifests.TorchStableABI {
		floor := v.Name.Version
		d = append(d, fmt.Sprintf("-DTORCH_TARGET_VERSION=%#x", uint64(floor.Major)<<56|uint64(floor.Minor)<<48))
	}
	return append(d, "-DPy_LIMITED_API=0x03000000")
}

// nameDefines give TORCH_EXTENSION_NAME its value. The placeholder means that
// the name is linked in.
func nameDefines(ops string) []string {
	d := []string{"-DTORCH_EXTENSION_NAME=" + ops}
	if ops == glue.Placeholder {
		d = append(d, "-D"+glue.LateMacro)
	}
	return d
}

// isISAFlag reports whether a compiler flag lets the compiler emit
// instructions beyond the baseline, and for which architecture.
func isISAFlag(flag string) (manifests.Arch, bool) {
	name, ok := strings.CutPrefix(flag, "-m")
	if !ok || strings.HasPrefix(name, "no-") {
		return "", false
	}
	if rest, ok := strings.CutPrefix(name, "arch="); ok {
		switch {
		case strings.HasPrefix(rest, "armv"):
			return manifests.AArch64, true
		case rest == "native":
			return "", false
		default:
			return manifests.X86_64, true
		}
	}
	if strings.HasPrefix(name, "cpu=") {
		return manifests.AArch64, true
	}
	for _, p := range []string{"avx", "fma", "f16c", "sse", "ssse", "bmi", "amx", "popcnt", "lzcnt", "movbe", "aes", "pclmul", "sha", "gfni", "vaes", "vpclmul", "adx", "xsave", "prfchw"} {
		if strings.HasPrefix(name, p) {
			return manifests.X86_64, true
		}
	}
	return "", false
}

// sectionArch is the architecture that a section's flags belong to; ok is
// false for a section without such flags, which is for every architecture.
func sectionArch(s manifests.Section) (arch manifests.Arch, ok bool) {
	for _, f := range s.CxxFlags {
		if a, is := isISAFlag(f); is {
			return a, true
		}
	}
	return "", false
}

// gencode are nvcc's flags for a list of capabilities such as 8.0, 9.0a,
// 10.0f and 12.0+PTX. Each gets its machine code; +PTX adds the virtual
// architecture, which a newer device compiles for itself.
func gencode(archs []string) ([]string, error) {
	var flags []string
	for _, a := range archs {
		sm, ptx, err := smName(a)
		if err != nil {
			return nil, err
		}
		flags = append(flags, fmt.Sprintf("-gencode=arch=compute_%s,code=sm_%s", sm, sm))
		if ptx {
			flags = append(flags, fmt.Sprintf("-gencode=arch=compute_%s,code=compute_%s", sm, sm))
		}
	}
	return flags, nil
}

// clangArchs are the same list in clang's flags. clang embeds PTX for every
// architecture unless told otherwise.
func clangArchs(archs []string) ([]string, error) {
	flags := []string{"--no-cuda-include-ptx=all"}
	for _, a := range archs {
		sm, ptx, err := smName(a)
		if err != nil {
			return nil, err
		}
		flags = append(flags, "--cuda-gpu-arch=sm_"+sm)
		if ptx {
			flags = append(flags, "--cuda-include-ptx=sm_"+sm)
		}
	}
	return flags, nil
}

// smName turns a capability into the digits that the compilers use.
func smName(capability string) (sm string, ptx bool, err error) {
	base, ptx := strings.CutSuffix(capability, "+PTX")
	major, minor, ok := strings.Cut(base, ".")
	digits := strings.TrimRight(minor, "af")
	if !ok || major == "" || len(digits) != 1 || len(minor) > 2 || strings.Trim(major+digits, "0123456789") != "" {
		return "", false, fmt.Errorf("capability %q: expected X.Y with an optional a or f and +PTX", capability)
	}
	return major + minor, ptx, nil
}

// refusedFlags are flags that would make the compiler read or write outside
// the action's tree, or read its arguments from a file that no key covers.
var refusedFlags = []string{"-o", "-c", "-E", "-S", "-M", "-MM", "-MD", "-MMD", "-MF", "-save-temps", "--save-temps", "-wrapper", "-fplugin", "-fpass-plugin", "-specs", "--keep", "-keep"}

// placeFlag is an option with a path that leaves the action's tree: what it
// names is in no key and not there on another machine.
var placeFlag = regexp.MustCompile(`^(?:-(?:[IBLF]|MF|iquote|isystem|idirafter|isysroot|include|imacros|iprefix|ivfsoverlay|c-isystem|cxx-isystem)|--?[A-Za-z][A-Za-z0-9+-]*[=,])?(?:/|\.\.(?:/|$))` +
	`|^-W[ap],(?:.*,)?(?:/|\.\./)`)

// checkFlags refuses flags of a manifest that an action can't honour.
func checkFlags(flags []string) error {
	for _, f := range flags {
		for _, host := range []string{"-Xcompiler=", "--compiler-options="} { // nvcc's, for its host compiler
			if list, ok := strings.CutPrefix(f, host); ok {
				if err := checkFlags(strings.Split(list, ",")); err != nil {
					return err
				}
			}
		}
		name, _, _ := strings.Cut(f, "=")
		switch {
		case strings.HasPrefix(f, "@"):
			return fmt.Errorf("flag %q: a file of flags is no declared input; write the flags out", f)
		case f == "-march=native" || f == "-mcpu=native" || f == "-mtune=native":
			return fmt.Errorf("flag %q: the result would depend on the machine that builds; name the architecture", f)
		case slices.Contains(refusedFlags, name):
			return fmt.Errorf("flag %q: thoxbuild chooses what is read and written", f)
		case strings.HasPrefix(f, "-D"), strings.HasPrefix(f, "-U"), strings.Contains(name, "prefix-map"):
		case placeFlag.MatchString(f):
			return fmt.Errorf("flag %q: names a place on this machine; list headers in src, and their folders in include", f)
		}
	}
	return nil
}

// hostFlag spells a manifest's flag as the compiler at hand wants it. zig
// takes -march=armv8.2-a+bf16, which GCC and clang agree on, for a processor's
// name; its own spelling is -mcpu=generic+v8_2a+bf16.
func hostFlag(tool Tool, flag string) string {
	rest, ok := strings.CutPrefix(flag, "-march=armv")
	if !ok || len(tool.Args) < 2 || path.Base(tool.Args[0]) != "zig" {
		return flag
	}
	version, extensions, more := strings.Cut(rest, "+")
	cpu := "-mcpu=generic"
	if number, isA := strings.CutSuffix(version, "-a"); isA && strings.Contains(number, ".") {
		cpu += "+v" + strings.ReplaceAll(number, ".", "_") + "a"
	}
	if more {
		cpu += "+" + extensions
	}
	return cpu
}
