package toolchain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
func (s *Store) cuda(ctx context.Context, r Request, host Tool, parts hostParts) (*CUDA, error) {
	version := r.Compute.Version
	switch {
	case r.CUDA == manifests.CUDAInstalled:
		return s.installedCUDA(ctx, r, host)
	case version.Major == 13:
		return s.nvcc(ctx, r, host)
	case version.Major == 12:
		return s.clangCUDA(ctx, r, parts)
	default:
		return nil, &Error{"choose a compiler for CUDA " + version.String(), errors.New("there are recipes for CUDA 12 and 13 only"),
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

// isCUDAHeader chooses what is the target's: headers, and the runtime library
// that a link reads.
func isCUDAHeader(name string) bool {
	return strings.HasPrefix(name, "include/") || strings.HasPrefix(name, "lib/libcudart.so")
}

// cudaFolders completes a CUDA with the folders below dir, and the folders of
// further headers.
func (s *Store) cudaFolders(c *CUDA, dir string, more ...string) error {
	c.Includes = []string{dir + "/include"}
	// CUDA 13 keeps the C++ core libraries in a folder of their own.
	if isDir(s.Real(dir + "/include/cccl")) {
		c.Includes = append(c.Includes, dir+"/include/cccl")
	}
	parts := []string{"cuda-headers", path.Base(dir)}
	for _, d := range more {
		c.Includes = append(c.Includes, d+"/include")
		parts = append(parts, path.Base(d))
	}
	c.HeadersFingerprint = fingerprint(parts...)
	c.runtime = fmt.Sprintf("%s/lib/libcudart.so.%d", dir, c.Version.Major)
	if _, err := os.Stat(s.Real(c.runtime)); err != nil {
		return &Error{"find the CUDA runtime library", err, "the package of the CUDA runtime has changed its layout; pin another in toolchain.lock"}
	}
	return nil
}

// wheelPart is a part of one of NVIDIA's wheels: the members whose names
// inside a toolkit pick chooses.
type wheelPart struct {
	Package
	pick func(name string) bool
}

// wheelsEntry lays a toolkit out of parts of wheels. finish, which may be nil,
// completes it. revision changes with the recipe in the picks and in finish.
func (s *Store) wheelsEntry(ctx context.Context, name, revision string, wheels []wheelPart, finish func(dir string) error) (string, error) {
	parts := []string{revision}
	for _, w := range wheels {
		parts = append(parts, w.SHA256)
	}
	return s.entry(ctx, name+"-"+fingerprint(parts...), func(dir string) error {
		for _, w := range wheels {
			err := s.unpackWheel(ctx, w.Package, dir, func(name string) string {
				name = cudaMember(name)
				if name == "" || path.Base(name) == "__init__.py" || !w.pick(name) {
					return ""
				}
				return name
			})
			if err != nil {
				return fmt.Errorf("%s: %w", w.File, err)
			}
		}
		if err := allowPrograms(dir); err != nil || finish == nil {
			return err
		}
		return finish(dir)
	})
}

// allowPrograms makes the programs of a toolkit executable: some wheels lose
// the mode bits.
func allowPrograms(dir string) error {
	for _, sub := range []string{"bin", "nvvm/bin"} {
		files, err := os.ReadDir(filepath.Join(dir, filepath.FromSlash(sub)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, f := range files {
			if !f.Type().IsRegular() {
				continue
			}
			if err := os.Chmod(filepath.Join(dir, filepath.FromSlash(sub), f.Name()), 0o755); err != nil {
				return err
			}
		}
	}
	return nil
}

// wrapPrograms puts a script in the place of each program, which it finds
// beside itself under the name with ".real".
func wrapPrograms(dir, text string, programs ...string) error {
	for _, p := range programs {
		file := filepath.Join(dir, filepath.FromSlash(p))
		if err := os.Rename(file, file+".real"); err != nil {
			return err
		}
		if err := script(dir, p, text); err != nil {
			return err
		}
	}
	return nil
}

// script writes an executable file below dir.
func script(dir, name, text string) error {
	to := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, []byte(text), 0o755)
}
