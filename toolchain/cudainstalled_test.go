package toolchain

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/matrix"
)

// installToolkit makes a toolkit that looks complete.
func installToolkit(t *testing.T, version int) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"bin/nvcc": echoScript, "bin/cudafe++": echoScript, "bin/ptxas": echoScript, "nvvm/bin/cicc": echoScript,
		"nvvm/libdevice/libdevice.10.bc": "BC", "include/cuda_runtime.h": "", "include/cuda_runtime_api.h": "",
		"include/cuda.h": fmt.Sprintf("/* x */\n#define CUDA_VERSION %d\n", version), fmt.Sprintf("lib64/libcudart.so.%d", version/1000): "elf",
	} {
		if err := script(root, name, text); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestInstalledToolkit(t *testing.T) {
	root := installToolkit(t, 13000)
	t.Setenv("CUDA_HOME", root)
	s := newCUDAIndex(t).open(t, nil)
	r := cudaRequest("13.0", manifests.Arch(hostArch()))
	r.CUDA = manifests.CUDAInstalled
	c, err := s.cuda(context.Background(), r, testHost, hostParts{})
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(c.Compiler.Args, " "); strings.Contains(text, root) {
		t.Errorf("the command names a folder of this machine: %s", text)
	}
	dir := filepath.Dir(filepath.Dir(s.Real(c.Compiler.Args[0])))
	if fi, err := os.Lstat(filepath.Join(dir, "bin", "nvcc")); err != nil || !fi.Mode().IsRegular() {
		t.Errorf("nvcc must be a file of the entry's, or it looks for its compilers elsewhere: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "nvvm/bin/cicc")); err != nil || string(b) != stablePathScript {
		t.Errorf("cicc is not wrapped: %v", err)
	}
	if b, _ := os.ReadFile(filepath.Join(root, "nvvm/bin/cicc")); string(b) != echoScript {
		t.Error("the installed toolkit was changed")
	}
	if _, err := os.Stat(s.Real(c.runtime)); err != nil {
		t.Error(err)
	}
}

func TestInstalledToolkitThatDoesNotFit(t *testing.T) {
	other := manifests.AArch64
	if hostArch() == string(other) {
		other = manifests.X86_64
	}
	incomplete := installToolkit(t, 13000)
	if err := os.Remove(filepath.Join(incomplete, "bin/ptxas")); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, home, path, cuda string
		arch                   manifests.Arch
		want                   string
	}{
		{"none", "", "/nonexistent", "13.0", manifests.Arch(hostArch()), "no nvcc is on PATH"},
		{"other release", installToolkit(t, 12040), "", "13.0", manifests.Arch(hostArch()), "is CUDA 12.4"},
		{"cross", installToolkit(t, 13000), "", "13.0", other, "is for " + hostArch()},
		{"incomplete", incomplete, "", "13.0", manifests.Arch(hostArch()), "bin/ptxas"},
		{"fits", installToolkit(t, 13020), "", "13.2", manifests.Arch(hostArch()), ""},
		{"on PATH", "", filepath.Join(installToolkit(t, 12060), "bin"), "12.6", manifests.Arch(hostArch()), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("CUDA_HOME", tt.home)
			t.Setenv("PATH", tt.path)
			n := matrix.Need{Tool: matrix.NVCC, Version: manifests.MustVersion(tt.cuda), Target: manifests.Platform{Arch: tt.arch, OS: manifests.Linux}}
			err := AvailableFrom(context.Background(), n, manifests.CUDAInstalled)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, expected %q", err, tt.want)
			}
		})
	}
}
