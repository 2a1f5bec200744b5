package toolchain

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/matrix"
)

// Available reports whether this machine has, or can fetch, what a variant's
// build needs: nil, or an error whose text says what is missing and how to get
// it. It is cheap: nothing is fetched and nothing is compiled.
func Available(ctx context.Context, n matrix.Need) error {
	return AvailableFrom(ctx, n, manifests.CUDAWheels)
}

// AvailableFrom is Available where the workspace says where the CUDA compiler
// comes from.
func AvailableFrom(ctx context.Context, n matrix.Need, cuda manifests.CUDASource) error {
	if cuda == manifests.CUDAInstalled && (n.Tool == matrix.NVCC || n.Tool == matrix.ClangCUDA) {
		return availableInstalledCUDA(n)
	}
	switch n.Tool {
	case matrix.ZigCXX:
		if runtime.GOOS != "linux" {
			return fmt.Errorf("this is %s, and Linux variants take the C++ library of a Linux machine's g++", runtime.GOOS)
		}
		_, err := findHostCXX("/", n.Target.Arch)
		if e := (*Error)(nil); errors.As(err, &e) {
			return fmt.Errorf("%w; %s", e.Err, e.Hint)
		}
		return err
	case matrix.XCRun:
		return availableXcode(ctx, manifests.CPU)
	case matrix.XCMetal:
		return availableXcode(ctx, manifests.Metal)
	case matrix.HIPCC:
		return hipcc.available(ctx, n)
	case matrix.ICPX:
		if err := icpx.available(ctx, n); err != nil {
			return err
		}
		if err := findOcloc(); err != nil {
			e := err.(*Error)
			return fmt.Errorf("%w; %s", e.Err, e.Hint)
		}
		return nil
	case matrix.NVCC:
		return availableNVCC(n)
	case matrix.ClangCUDA:
		return availableClangCUDA(n)
	}
	return fmt.Errorf("no driver for %s", n.Tool)
}

// availableNVCC: the wheels are there for both processors of Linux, whatever
// the target is.
func availableNVCC(n matrix.Need) error {
	switch {
	case runtime.GOOS != "linux":
		return fmt.Errorf("nvcc's packages are for Linux; this is %s", runtime.GOOS)
	case n.Version.Major != 13:
		return fmt.Errorf("no packages hold nvcc %v; CUDA 13 is the first that they hold", n.Version)
	}
	return nil
}

func availableClangCUDA(n matrix.Need) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("the packages of CUDA 12 are for Linux; this is %s", runtime.GOOS)
	}
	if n.Version.Major != 12 {
		return fmt.Errorf("there is no recipe for CUDA %v", n.Version)
	}
	_, err := findClangCUDA()
	if e := (*Error)(nil); errors.As(err, &e) {
		return fmt.Errorf("%w; %s", e.Err, e.Hint)
	}
	return err
}

func availableXcode(ctx context.Context, b manifests.Backend) error {
	_, err := findXcode(ctx, b == manifests.Metal, manifests.Compute{Backend: b}.MacOS())
	if e := (*Error)(nil); errors.As(err, &e) {
		return fmt.Errorf("%w; %s", e.Err, e.Hint)
	}
	return err
}
