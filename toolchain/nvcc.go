package toolchain

import (
	"context"
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/manifests"
)

// stablePathScript stands in front of the two compilers that nvcc tells the
// absolute path of the source. They digest it into symbol names, and the
// folder of an action is another one each time.
//
//go:embed scripts/stable-path.sh
var stablePathScript string

var stablePathPrograms = []string{"bin/cudafe++", "nvvm/bin/cicc"}

// nvcc provides CUDA 13 and newer: nvcc from its wheels, with the kit's C++
// compiler for the host half. The programs are this machine's, headers and
// libraries the target's.
func (s *Store) nvcc(ctx context.Context, r Request, host Tool) (*CUDA, error) {
	cuda, arch := r.Compute.Version, r.Platform.Arch
	var tools, headers []wheelPart
	for _, project := range []string{"nvidia-cuda-nvcc", "nvidia-nvvm"} {
		p, err := s.cudaWheel(ctx, project, cuda, manifests.Arch(hostArch()))
		if err != nil {
			return nil, err
		}
		tools = append(tools, wheelPart{p, isNVCC})
	}
	for _, project := range []string{"nvidia-cuda-runtime", "nvidia-cuda-cccl", "nvidia-cuda-crt"} {
		p, err := s.cudaWheel(ctx, project, cuda, arch)
		if err != nil {
			return nil, err
		}
		headers = append(headers, wheelPart{p, isCUDAHeader})
	}
	toolkit, err := s.wheelsEntry(ctx, fmt.Sprintf("nvcc-%s-%s", cuda, hostArch()), "2"+stablePathScript, tools, func(dir string) error {
		return wrapPrograms(dir, stablePathScript, stablePathPrograms...)
	})
	if err != nil {
		return nil, err
	}
	dir, err := s.wheelsEntry(ctx, fmt.Sprintf("cuda-headers-%s-%s", cuda, arch), "1", headers, nil)
	if err != nil {
		return nil, err
	}
	c := &CUDA{Version: cuda}
	if c.Compiler, err = s.nvccTool(ctx, toolkit, host); err != nil {
		return nil, err
	}
	math, err := s.cudaMathHeaders(ctx, cuda, arch)
	if err != nil {
		return nil, err
	}
	return c, s.cudaFolders(c, dir, math...)
}

// isNVCC chooses the programs of a toolkit, and the one header that nvcc's own
// output includes.
func isNVCC(name string) bool {
	dir, _, _ := strings.Cut(name, "/")
	return dir == "bin" || dir == "nvvm" || dir == "include"
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

// hostScript makes an entry with a program clang++ that is the given tool:
// nvcc takes a program as its host compiler, not a command with arguments. The
// script finds the tool's files beside its own entry, so it holds no path of
// this machine.
func (s *Store) hostScript(ctx context.Context, host Tool) (string, error) {
	var b strings.Builder // see hostScriptNeeds
	b.WriteString("#!/bin/sh\nroot=$(cd \"${0%/*}/..\" && pwd) || exit\nexec")
	for _, a := range host.Args {
		before, after, ok := strings.Cut(a, VirtualRoot+"/")
		if !ok {
			b.WriteString(" " + quote(a))
			continue
		}
		b.WriteString(" " + quote(before) + besideEntry + quote(after))
	}
	b.WriteString(" \"$@\"\n")
	text := b.String()
	return s.entry(ctx, hostScriptPrefix+fingerprint(text), func(dir string) error {
		return script(dir, hostScriptName, text)
	})
}

// How entries of hostScript are called, and what stands in the script before the
// name of another entry.
const (
	hostScriptPrefix = "cuda-host-"
	hostScriptName   = "clang++"
	besideEntry      = `"$root"/`
)

// hostScriptNeeds are the entries that such a script names.
func hostScriptNeeds(text string) []string {
	var needs []string
	for _, word := range strings.Split(text, besideEntry+"'")[1:] {
		path, _, _ := strings.Cut(word, "'")
		name, _, _ := strings.Cut(path, "/")
		if strings.HasPrefix(name, "=") { // all of them, as in -ffile-prefix-map
			continue
		}
		if !slices.Contains(needs, name) {
			needs = append(needs, name)
		}
	}
	return needs
}

// quote makes one word for sh.
func quote(word string) string {
	if word == "" {
		return ""
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
