package toolchain

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/matrix"
)

// installedToolkit is a CUDA toolkit of this machine.
type installedToolkit struct {
	root    string
	version manifests.Version
}

const installedHint = "set CUDA_HOME to a toolkit's folder, or leave cuda = \"installed\" out of the workspace's [toolchain]"

// findInstalledCUDA takes the toolkit of CUDA_HOME, or else the one that the
// nvcc on PATH belongs to.
func findInstalledCUDA() (installedToolkit, error) {
	const op = "find the installed CUDA toolkit"
	root := os.Getenv("CUDA_HOME")
	if root == "" {
		program, err := exec.LookPath("nvcc")
		if err != nil {
			return installedToolkit{}, &Error{op, errors.New("CUDA_HOME is not set and no nvcc is on PATH"), installedHint}
		}
		if program, err = filepath.EvalSymlinks(program); err != nil {
			return installedToolkit{}, &Error{op, err, installedHint}
		}
		root = filepath.Dir(filepath.Dir(program))
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return installedToolkit{}, &Error{op, err, installedHint}
	}
	for _, need := range []string{"bin/nvcc", "bin/cudafe++", "bin/ptxas", "nvvm/bin/cicc", "nvvm/libdevice", "include/cuda_runtime.h"} {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(need))); err != nil {
			return installedToolkit{}, &Error{op, fmt.Errorf("the toolkit is not complete: %w", err), installedHint}
		}
	}
	v, err := toolkitVersion(filepath.Join(root, "include", "cuda.h"))
	if err != nil {
		return installedToolkit{}, &Error{op, err, installedHint}
	}
	return installedToolkit{root, v}, nil
}

var cudaVersionRE = regexp.MustCompile(`(?m)^\s*#\s*define\s+CUDA_VERSION\s+(\d+)\s*$`)

// toolkitVersion reads the release out of cuda.h: 13000 is 13.0.
func toolkitVersion(header string) (manifests.Version, error) {
	f, err := os.Open(header)
	if err != nil {
		return manifests.Version{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 8<<20))
	if err != nil {
		return manifests.Version{}, err
	}
	m := cudaVersionRE.FindSubmatch(b)
	if m == nil {
		return manifests.Version{}, fmt.Errorf("%s defines no CUDA_VERSION", header)
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		return manifests.Version{}, fmt.Errorf("%s: CUDA_VERSION: %w", header, err)
	}
	return manifests.Version{Major: n / 1000, Minor: n % 1000 / 10}, nil
}

// fits says why the toolkit can't build for a need.
func (t installedToolkit) fits(cuda manifests.Version, arch manifests.Arch) error {
	if t.version != cuda {
		return fmt.Errorf("the installed toolkit is CUDA %v", t.version)
	}
	if arch != manifests.Arch(hostArch()) {
		return fmt.Errorf("the installed toolkit is for %s", hostArch())
	}
	return nil
}

func availableInstalledCUDA(n matrix.Need) error {
	t, err := findInstalledCUDA()
	if e := (*Error)(nil); errors.As(err, &e) {
		return fmt.Errorf("%w; %s", e.Err, e.Hint)
	}
	if err != nil {
		return err
	}
	return t.fits(n.Version, n.Target.Arch)
}

// installedCUDA provides the machine's own toolkit. An entry of links stands
// for it, in which nvcc's compilers are wrapped as those of the wheels are.
func (s *Store) installedCUDA(ctx context.Context, r Request, host Tool) (*CUDA, error) {
	t, err := findInstalledCUDA()
	if err != nil {
		return nil, err
	}
	if err := t.fits(r.Compute.Version, r.Platform.Arch); err != nil {
		return nil, &Error{"use the installed CUDA toolkit for " + r.Compute.String(), err, installedHint}
	}
	digest, err := t.digest()
	if err != nil {
		return nil, &Error{"read the installed CUDA toolkit", err, installedHint}
	}
	cudart, err := t.runtime()
	if err != nil {
		return nil, &Error{"read the installed CUDA toolkit", err, installedHint}
	}
	// The links name the toolkit's folder, so it is in the entry's name; the
	// same toolkit in another place gives the same objects under another key.
	name := fmt.Sprintf("cuda-installed-%s-%s", t.version, fingerprint("2", stablePathScript, t.root, digest))
	dir, err := s.entry(ctx, name, func(dir string) error { return t.link(dir, cudart) })
	if err != nil {
		return nil, err
	}
	c := &CUDA{Version: t.version}
	if c.Compiler, err = s.nvccTool(ctx, dir, host); err != nil {
		return nil, err
	}
	return c, s.cudaFolders(c, dir)
}

// digest identifies the toolkit by its driver program and its release.
func (t installedToolkit) digest() (string, error) {
	h := sha256.New()
	for _, name := range []string{"bin/nvcc", "include/cuda_runtime_api.h", "version.json"} {
		f, err := os.Open(filepath.Join(t.root, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) && name == "version.json" {
			continue // old and repackaged toolkits have none
		}
		if err != nil {
			return "", err
		}
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// runtime finds libcudart.so of the toolkit.
func (t installedToolkit) runtime() (string, error) {
	name := fmt.Sprintf("libcudart.so.%d", t.version.Major)
	for _, d := range []string{"lib64", "lib", filepath.Join("targets", hostArch()+"-linux", "lib")} {
		if p := filepath.Join(t.root, d, name); isFile(p) {
			return p, nil
		}
	}
	return "", fmt.Errorf("%s has no %s", t.root, name)
}

func isFile(p string) bool {
	fi, err := os.Stat(p)
	return err == nil && fi.Mode().IsRegular()
}

// link fills an entry with links to the toolkit. nvcc itself is copied: it
// finds its compilers beside its own file.
func (t installedToolkit) link(dir, cudart string) error {
	for _, d := range []string{"bin", "nvvm/bin", "lib"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.FromSlash(d)), 0o755); err != nil {
			return err
		}
	}
	links := map[string]string{
		"include":                      filepath.Join(t.root, "include"),
		"nvvm/libdevice":               filepath.Join(t.root, "nvvm", "libdevice"),
		"lib/" + filepath.Base(cudart): cudart,
		"nvvm/bin/" + "cicc":           filepath.Join(t.root, "nvvm", "bin", "cicc"),
	}
	if targets := filepath.Join(t.root, "targets"); isDir(targets) {
		links["targets"] = targets
	}
	programs, err := os.ReadDir(filepath.Join(t.root, "bin"))
	if err != nil {
		return err
	}
	for _, p := range programs {
		if p.Name() != "nvcc" {
			links["bin/"+p.Name()] = filepath.Join(t.root, "bin", p.Name())
		}
	}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	b, err := os.ReadFile(filepath.Join(t.root, "bin", "nvcc"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "bin", "nvcc"), b, 0o755); err != nil {
		return err
	}
	return wrapPrograms(dir, stablePathScript, stablePathPrograms...)
}
