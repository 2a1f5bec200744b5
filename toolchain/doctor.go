package toolchain

import (
	"context"
	"errors"
	"fmt"

	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/matrix"
)

// Check is one thing that a machine has or lacks.
type Check struct {
	Name string
	// Required is false for what only some variants need.
	Required bool
	// Err says what is missing and how to get it; nil means it is there.
	Err error
}

// Doctor looks at this machine. It fetches nothing.
func Doctor(ctx context.Context, indexURL string, offline bool) []Check {
	host := manifests.Platform{Arch: manifests.Arch(hostArch()), OS: manifests.Linux}
	other := manifests.Platform{Arch: manifests.AArch64, OS: manifests.Linux}
	if host.Arch == manifests.AArch64 {
		other.Arch = manifests.X86_64
	}
	checks := []Check{
		{"C++ library of g++ for " + host.String(), true, Available(ctx, matrix.Need{Tool: matrix.ZigCXX, Target: host})},
		{"C++ library of g++ for " + other.String(), false, Available(ctx, matrix.Need{Tool: matrix.ZigCXX, Target: other})},
	}
	if !offline {
		_, err := IndexURL(ctx, indexURL)
		checks = append(checks, Check{"package index", true, err})
	}
	for _, v := range []string{"12.6", "13.0", "13.2"} {
		n := matrix.Need{Tool: matrix.NVCC, Version: manifests.MustVersion(v), Target: host}
		if n.Version.Major < 13 {
			n.Tool = matrix.ClangCUDA
		}
		checks = append(checks, Check{fmt.Sprintf("CUDA %s compiler", v), false, Available(ctx, n)})
	}
	checks = append(checks,
		Check{"Xcode (macOS)", false, Available(ctx, matrix.Need{Tool: matrix.XCRun})},
		Check{"Xcode's Metal toolchain", false, Available(ctx, matrix.Need{Tool: matrix.XCMetal})})
	for _, c := range []vendorCompiler{hipcc, icpx} {
		in, err := c.find(ctx)
		name := fmt.Sprintf("%s of %s", c.program, c.name)
		if err == nil {
			name += " " + in.version.String()
		} else if e := (*Error)(nil); errors.As(err, &e) {
			err = fmt.Errorf("%w; %s", e.Err, e.Hint)
		}
		checks = append(checks, Check{name, false, err})
	}
	return checks
}
