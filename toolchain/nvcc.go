package toolchain

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/thox-ai/thoxbuild/manifests"
)

// stablePathScript stands in front of the two compilers that nvcc tells the
// absolute path of the source. They digest it into symbol names, and the
// folder of an action is another one each time.
//
//go:embed scripts/stable-path.sh
var stablePathScript string

// nvcc provides CUDA 13 and newer: nvcc from its wheels, with the kit's C++
// compiler for the host half.
func (s *Store) nvcc(ctx context.Context, r Request, host Tool) (*CUDA, error) {
	cuda := r.Compute.Version
	var packages []Package
	for _, project := range []string{"nvidia-cuda-nvcc", "nvidia-nvvm"} {
		p, err := s.cudaWheel(ctx, project, cuda, manifests.Arch(hostArch()))
		if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
	tools, err := s.wheelsEntry(ctx, fmt.Sprintf("nvcc-%s-%s", cuda, hostArch()), "2"+stablePathScript, packages, func(name string) string {
		name = cudaMember(name)
		// include/ of these packages is for the output of nvcc itself.
		if dir, _, _ := strings.Cut(name, "/"); dir == "bin" || dir == "nvvm" || dir == "include" {
			return name
		}
		return ""
	}, stablePaths)
	if err != nil {
		return nil, err
	}
	headers, err := s.cudaHeaders(ctx, cuda, r.Platform.Arch)
	if err != nil {
		return nil, err
	}
	c := &CUDA{Version: cuda}
	if c.Compiler, err = s.nvccTool(ctx, tools, host); err != nil {
		return nil, err
	}
	return c, s.cudaFolders(c, headers)
}

// nvccTool is nvcc of a toolkit with a host compiler.
func (s *Store) nvccTool(ctx context.Context, toolkit string, host Tool) (Tool, error) {
	ccbin, err := s.hostScript(ctx, host)
	if err != nil {
		return Tool{}, err
	}
	return Tool{
		Args: []string{
			toolkit + "/bin/nvcc", "-ccbin", ccbin + "/clang++",
			// nvcc knows clang up to some version, newer ones work as well.
			"-allow-unsupported-compiler",
			// Names of temporary files end up in the object; beside the object
			// they are named after it, and not at random.
			"--objdir-as-tempdir",
		},
		Env:         host.Env,
		Fingerprint: fingerprint("nvcc", path.Base(toolkit), path.Base(ccbin), host.Fingerprint),
	}, nil
}

// stablePaths finishes a toolkit: its programs can be run, and nvcc's
// compilers see one path for a source wherever it lies.
func stablePaths(dir string) error {
	for _, sub := range []string{"bin", "nvvm/bin"} {
		files, err := os.ReadDir(filepath.Join(dir, filepath.FromSlash(sub)))
		if err != nil {
			return err
		}
		for _, f := range files { // some wheels lose the mode bits
			if !f.Type().IsRegular() {
				continue
			}
			if err := os.Chmod(filepath.Join(dir, filepath.FromSlash(sub), f.Name()), 0o755); err != nil {
				return err
			}
		}
	}
	for _, program := range []string{"bin/cudafe++", "nvvm/bin/cicc"} {
		file := filepath.Join(dir, filepath.FromSlash(program))
		if err := os.Rename(file, file+".real"); err != nil {
			return err
		}
		if err := script(dir, program, stablePathScript); err != nil {
			return err
		}
	}
	return nil
}

// hostScript makes an entry with a program clang++ that is the given tool:
// nvcc takes a program as its host compiler, not a command with arguments. The
// script finds the tool's files beside its own entry, so it holds no path of
// this machine.
func (s *Store) hostScript(ctx context.Context, host Tool) (string, error) {
	var b strings.Builder
	b.WriteString("#!/bin/sh\nroot=$(cd \"${0%/*}/..\" && pwd) || exit\nexec")
	for _, a := range host.Args {
		before, after, ok := strings.Cut(a, VirtualRoot+"/")
		if !ok {
			b.WriteString(" " + quote(a))
			continue
		}
		b.WriteString(" " + quote(before) + `"$root"/` + quote(after))
	}
	b.WriteString(" \"$@\"\n")
	text := b.String()
	return s.entry(ctx, "cuda-host-"+fingerprint(text), func(dir string) error {
		return script(dir, "clang++", text)
	})
}

// quote makes one word for sh.
func quote(word string) string {
	if word == "" {
		return ""
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
