package toolchain

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/thox-ai/thoxbuild/manifests"
)

// CUDA is the part of a Kit that device code takes.
type CUDA struct {
	// Version is the toolkit's release, such as 13.0.
	Version manifests.Version
	// Compiler compiles one .cu file (add the device list, "-I" for Includes,
	// and "-c SOURCE -o OBJECT").
	Compiler Tool
	// Clang says that Compiler is clang, which takes other options than nvcc.
	Clang bool
	// Includes are the folders of the CUDA runtime's headers, for host code
	// as well.
	Includes []string
	// HeadersFingerprint identifies the text below Includes.
	HeadersFingerprint string
	// runtime is libcudart.so of the target, for the linker to read.
	runtime string
}

// cuda provides the device compiler for a request. host compiles the host
// half of a .cu file, and is already what the C++ files are compiled with.
func (s *Store) cuda(ctx context.Context, r Request, host Tool) (*CUDA, error) {
	switch version := r.Compute.Version; version.Major {
	case 13:
		return s.nvcc(ctx, r, host)
	default:
		return nil, &Error{"choose a compiler for CUDA " + version.String(), fmt.Errorf("there is a recipe for CUDA 13 only"),
			"take that release out of the workspace's [matrix]"}
	}
}

// cudaWheel pins the newest patch release of one of NVIDIA's packages.
func (s *Store) cudaWheel(ctx context.Context, project string, cuda manifests.Version, arch manifests.Arch) (Package, error) {
	if cuda.Major == 12 {
		project += "-cu12"
	}
	return s.pin(ctx, fmt.Sprintf("%s %s %s", project, cuda, arch), project, func(d []Dist) (Dist, string, error) {
		return newestWheel(d, project, cuda.String()+".", func(tags string) bool {
			return strings.Contains(tags, "manylinux") && strings.Contains(tags, string(arch))
		})
	})
}

// cudaMember maps a member of one of NVIDIA's wheels to its place in a
// toolkit: CUDA 13 has all in nvidia/cu13, CUDA 12 a folder for each package.
func cudaMember(name string) string {
	rest, ok := strings.CutPrefix(name, "nvidia/")
	if !ok {
		return ""
	}
	_, rest, _ = strings.Cut(rest, "/")
	return rest
}

// cudaHeaders unpacks what is the target's: headers, and the runtime library
// that a link reads.
//
//	include/  lib/libcudart.so.*
func (s *Store) cudaHeaders(ctx context.Context, cuda manifests.Version, arch manifests.Arch) (dir string, err error) {
	projects := []string{"nvidia-cuda-runtime", "nvidia-cuda-cccl", "nvidia-cuda-crt"}
	if cuda.Major == 12 {
		projects[2] = "nvidia-cuda-nvcc" // crt/ became a package of its own with CUDA 13
	}
	var packages []Package
	for _, p := range projects {
		one, err := s.cudaWheel(ctx, p, cuda, arch)
		if err != nil {
			return "", err
		}
		packages = append(packages, one)
	}
	return s.wheelsEntry(ctx, fmt.Sprintf("cuda-headers-%s-%s", cuda, arch), "1", packages, func(name string) string {
		name = cudaMember(name)
		if strings.HasPrefix(name, "include/") || strings.HasPrefix(name, "lib/libcudart.so") {
			return name
		}
		return ""
	}, nil)
}

// cudaFolders completes a CUDA with the folders below dir.
func (s *Store) cudaFolders(c *CUDA, dir string) error {
	c.Includes = []string{dir + "/include"}
	// CUDA 13 keeps the C++ core libraries in a folder of their own.
	if isDir(s.Real(dir + "/include/cccl")) {
		c.Includes = append(c.Includes, dir+"/include/cccl")
	}
	c.HeadersFingerprint = fingerprint("cuda-headers", path.Base(dir))
	c.runtime = fmt.Sprintf("%s/lib/libcudart.so.%d", dir, c.Version.Major)
	if _, err := os.Stat(s.Real(c.runtime)); err != nil {
		return &Error{"find the CUDA runtime library", err, "the package of the CUDA runtime has changed its layout; pin another in toolchain.lock"}
	}
	return nil
}

// wheelsEntry unpacks several wheels into one entry; finish, which may be nil,
// completes it. revision changes with the recipe in pick and finish.
func (s *Store) wheelsEntry(ctx context.Context, name, revision string, packages []Package, pick func(string) string, finish func(dir string) error) (string, error) {
	parts := []string{revision}
	for _, p := range packages {
		parts = append(parts, p.SHA256)
	}
	return s.entry(ctx, name+"-"+fingerprint(parts...), func(dir string) error {
		for _, p := range packages {
			if err := s.unpackWheel(ctx, p, dir, pick); err != nil {
				return fmt.Errorf("%s: %w", p.File, err)
			}
		}
		if finish == nil {
			return nil
		}
		return finish(dir)
	})
}

// script writes an executable file below dir.
func script(dir, name, text string) error {
	to := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, []byte(text), 0o755)
}
