package manifests

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Framework is what a variant is built for.
type Framework string

// The frameworks that variant names know.
const (
	Torch          Framework = "torch"
	TorchStableABI Framework = "torch-stable-abi"
	TVMFFI         Framework = "tvm-ffi"
	TorchNoarch    Framework = "torch-noarch"
)

// VariantName names one build of a kernel: the folder under build/ that the
// loader chooses by.
//
// Version is the framework's: the torch release for Torch, the floor for
// TorchStableABI, the tvm-ffi release for TVMFFI. A TorchNoarch name has no
// Version, no toolkit version and no Platform; its Backend is empty for the
// legacy name torch-universal.
type VariantName struct {
	Framework Framework
	Version   Version
	Compute   Compute
	Platform  Platform
}

// ParseVariantName reads a variant name. Every name that it accepts prints
// back to the same bytes and means to the loader what it means here; whatever
// the loader would ignore or misread is an error.
func ParseVariantName(s string) (VariantName, error) {
	v, err := parseVariantName(s)
	if err == nil && v.String() != s {
		err = fmt.Errorf("write it as %q", v.String())
	}
	if err != nil {
		return VariantName{}, fmt.Errorf("variant name %q: %w", s, err)
	}
	return v, nil
}

// String prints the name. A value that ParseVariantName did not make may
// print a name that does not parse; Validate tells.
func (v VariantName) String() string {
	switch v.Framework {
	case TorchNoarch:
		return "torch-" + noarchBackend(v.Compute.Backend)
	case Torch:
		abi := ""
		if v.Platform.OS == Linux {
			abi = "-cxx11"
		}
		return "torch" + v.Version.Tag() + abi + "-" + v.Compute.String() + "-" + v.Platform.String()
	default:
		return string(v.Framework) + v.Version.Tag() + "-" + v.Compute.String() + "-" + v.Platform.String()
	}
}

// Validate reports why the loader would not read the printed name as v.
func (v VariantName) Validate() error {
	got, err := ParseVariantName(v.String())
	if err != nil {
		return err
	}
	if got != v {
		return fmt.Errorf("variant name %q: it would be read as %s %v for %v", v.String(), got.Framework, got.Version, got.Compute)
	}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (v VariantName) MarshalText() ([]byte, error) { return []byte(v.String()), v.Validate() }

// UnmarshalText implements encoding.TextUnmarshaler.
func (v *VariantName) UnmarshalText(b []byte) (err error) {
	*v, err = ParseVariantName(string(b))
	return err
}

// universal is the legacy noarch name for every backend.
const universal = "universal"

// noarchBackend is the part after "torch-". The loader looks for CANN under
// the name of its device, npu.
func noarchBackend(b Backend) string {
	switch b {
	case "":
		return universal
	case CANN:
		return "npu"
	default:
		return string(b)
	}
}

func parseVariantName(s string) (VariantName, error) {
	parts := strings.Split(s, "-")
	switch {
	case strings.HasPrefix(s, "torch-stable-abi"):
		return parseCompiled(TorchStableABI, parts[2][len("abi"):], parts[3:])
	case strings.HasPrefix(s, "tvm-ffi"):
		return parseCompiled(TVMFFI, parts[1][len("ffi"):], parts[2:])
	case strings.HasPrefix(s, "torch-"):
		if len(parts) != 2 {
			return VariantName{}, fmt.Errorf("expected torch-<backend> with nothing after it")
		}
		return parseNoarch(parts[1])
	case strings.HasPrefix(s, "torch"):
		rest := parts[1:]
		tagged := len(rest) > 0 && rest[0] == "cxx11"
		if tagged {
			rest = rest[1:]
		}
		v, err := parseCompiled(Torch, parts[0][len("torch"):], rest)
		if err == nil && tagged != (v.Platform.OS == Linux) {
			err = fmt.Errorf("the cxx11 tag belongs to torch variants on linux and to no others")
		}
		return v, err
	}
	return VariantName{}, fmt.Errorf("expected it to start with torch<MAJOR><MINOR>, torch-stable-abi<MAJOR><MINOR>, tvm-ffi<MAJOR><MINOR> or torch-<backend>")
}

func parseNoarch(name string) (VariantName, error) {
	v := VariantName{Framework: TorchNoarch}
	switch {
	case name == universal:
	case name == "npu":
		v.Compute.Backend = CANN
	case name == string(CANN):
		return v, fmt.Errorf("the loader looks for this backend as torch-npu")
	case slices.Contains(Backends, Backend(name)):
		v.Compute.Backend = Backend(name)
	default:
		return v, fmt.Errorf("unknown backend %q", name)
	}
	return v, nil
}

// parseCompiled reads the parts after the framework's name: its version's
// digits and exactly three more parts.
func parseCompiled(f Framework, digits string, rest []string) (v VariantName, err error) {
	v.Framework = f
	if v.Version, err = parseTag(digits, 1); err != nil {
		return v, fmt.Errorf("%s version: %w", f, err)
	}
	if len(rest) != 3 {
		return v, fmt.Errorf("expected <compute>-<cpu>-<os> after the framework, got %q", strings.Join(rest, "-"))
	}
	if v.Compute, err = parseCompute(rest[0]); err != nil {
		return v, err
	}
	v.Platform = Platform{Arch(rest[1]), OS(rest[2])}
	return v, v.Platform.validate()
}

// parseTag splits the digits of a version tag. A framework's major has
// majorDigits digits and the rest is the minor, so that 210 is 2.10.
func parseTag(digits string, majorDigits int) (Version, error) {
	if len(digits) <= majorDigits {
		return Version{}, fmt.Errorf("%q: expected digits of a major and a minor version, as in 213", digits)
	}
	major, err1 := parseComponent(digits[:majorDigits])
	minor, err2 := parseComponent(digits[majorDigits:])
	if err1 != nil || err2 != nil {
		return Version{}, fmt.Errorf("%q: expected digits of a major and a minor version without leading zeros, as in 213", digits)
	}
	return Version{major, minor}, nil
}

// toolkits describes the compute parts that carry a version. The loader takes
// the last digit as the minor, so 12.10 written as cu1210 would be 121.0. No
// toolkit has reached maxMajor; a tag above it is such a misreading.
var toolkits = []struct {
	prefix   string
	backend  Backend
	maxMajor int
}{
	{"cu", CUDA, 99},
	{"rocm", ROCm, 60},
	{"xpu", XPU, 9999},
	{"cann", CANN, 60},
}

func parseCompute(s string) (Compute, error) {
	if b := Backend(s); slices.Contains([]Backend{CPU, Metal, Neuron, TPU}, b) {
		return Compute{Backend: b}, nil
	}
	for _, t := range toolkits {
		digits, ok := strings.CutPrefix(s, t.prefix)
		if !ok || digits == "" || strings.Trim(digits, "0123456789") != "" {
			continue
		}
		v, err := parseTag(digits, len(digits)-1)
		if err != nil || len(digits) < 2 {
			return Compute{}, fmt.Errorf("compute %q: expected %s<MAJOR><MINOR> without leading zeros", s, t.prefix)
		}
		if v.Major > t.maxMajor {
			return Compute{}, fmt.Errorf("compute %q: the loader takes the last digit as the minor and reads %s %v; a two-digit minor has no name", s, t.backend, v)
		}
		return Compute{t.backend, v}, nil
	}
	return Compute{}, fmt.Errorf("compute %q: expected cpu, metal, cu<MAJOR><MINOR>, rocm<MAJOR><MINOR>, xpu<MAJOR><MINOR>, cann<MAJOR><MINOR>, neuron or tpu", s)
}

// String prints the compute part of a variant name, such as "cu130" or "cpu".
func (c Compute) String() string {
	for _, t := range toolkits {
		if t.backend == c.Backend {
			return t.prefix + strconv.Itoa(c.Version.Major) + strconv.Itoa(c.Version.Minor)
		}
	}
	return string(c.Backend)
}

func (p Platform) validate() error {
	if p.Arch != X86_64 && p.Arch != AArch64 {
		return fmt.Errorf("cpu %q: expected x86_64 or aarch64", p.Arch)
	}
	if p.OS != Linux && p.OS != Darwin && p.OS != Windows {
		return fmt.Errorf("os %q: expected linux, darwin or windows", p.OS)
	}
	return nil
}
