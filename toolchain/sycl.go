package toolchain

import (
	"context"
	"errors"
	"os/exec"
	"path"
	"strings"
)

// Intel's flags for one library with machine code for these devices and
// SPIR-V for all others, as kernel-builder sets them.
const (
	syclTargets = "-fsycl-targets=spir64_gen,spir64"
	syclBackend = "-device pvc,xe-lpg,ats-m150 -options ' -cl-intel-enable-auto-large-GRF-mode -cl-poison-unsupported-fp64-kernels -cl-intel-greater-than-4GB-buffer-required'"
)

// syclCompile make fp32 division and roots round as torch's, in both steps.
var (
	syclCompile = []string{
		"-fPIC", "-fsycl", "-fhonor-nans", "-fhonor-infinities", "-fno-associative-math", "-fno-approx-func",
		"-foffload-fp32-prec-div", "-foffload-fp32-prec-sqrt", "-fno-sycl-instrument-device-code", "--offload-compress", syclTargets,
	}
	syclLink = []string{
		"-fsycl", "--offload-compress", "-foffload-fp32-prec-div", "-foffload-fp32-prec-sqrt", syclTargets,
		"-Xsycl-target-backend=spir64_gen", syclBackend,
	}
)

// findOcloc: the device code of spir64_gen is made by Intel's offline compiler
// while a library is linked.
func findOcloc() error {
	if _, err := exec.LookPath("ocloc"); err != nil {
		return &Error{"find ocloc", errors.New("ocloc is not on PATH; it makes the machine code for pvc, xe-lpg and ats-m150"),
			"install Intel's offline compiler (package intel-ocloc)"}
	}
	return nil
}

// sycl provides an installed oneAPI. Host code that has no SYCL in it is
// compiled as for every Linux variant. The link is icpx's, which makes the
// device code in it, with the libraries that every Linux variant has.
func (s *Store) sycl(ctx context.Context, r Request, parts hostParts, kit *Kit) (*Device, error) {
	dir, in, err := s.vendor(ctx, icpx, r)
	if err != nil {
		return nil, err
	}
	if err := findOcloc(); err != nil {
		return nil, err
	}
	runtime, err := newestLibrary(s.Real(dir)+"/lib", "libsycl.so")
	if err != nil {
		return nil, &Error{"find oneAPI's runtime library", err, icpx.hint}
	}
	// Where ocloc is installed; an action's environment has no PATH.
	env := map[string]string{"LC_ALL": "C", "PATH": dir + "/bin:/usr/local/bin:/usr/bin:/bin"}
	identity := fingerprint("sycl", in.text, path.Base(parts.overlay), path.Base(parts.cxx), path.Base(parts.zig), parts.glibc.String())
	program := dir + "/bin/icpx"
	args := append([]string{program}, vendorHost(parts, r.Platform.Arch)...)
	kit.Link = Linker{
		Tool: Tool{append([]string{program, "-shared", "-nostdlib", "-Wl,-z,noexecstack", "-Wl,-z,now", "-Wl,-z,relro", "-Wl,--gc-sections", "-s"}, syclLink...),
			env, fingerprint("sycl-link", identity, kit.Link.Fingerprint)},
		tail: driverFlags(append([]string{"--as-needed", dir + "/lib/" + runtime}, kit.Link.tail...)),
	}
	return &Device{
		Compiler:           Tool{append(args, syclCompile...), env, identity},
		Includes:           []string{dir + "/include"},
		HeadersFingerprint: fingerprint("sycl-headers", in.text),
	}, nil
}

// driverFlags are a linker's arguments as a compiler passes them on; files stay
// as they are.
func driverFlags(linker []string) []string {
	var out []string
	for i := 0; i < len(linker); i++ {
		switch a := linker[i]; {
		case a == "--exclude-libs":
			i++
			out = append(out, "-Wl,"+a+","+linker[i])
		case strings.HasPrefix(a, "-"):
			out = append(out, "-Wl,"+a)
		default:
			out = append(out, a)
		}
	}
	return out
}
