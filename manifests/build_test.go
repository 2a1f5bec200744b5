package manifests

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sameKernel compares what files say and not where they say it.
var sameKernel = cmp.Options{
	cmpopts.IgnoreUnexported(Kernel{}, Workspace{}),
	cmpopts.IgnoreFields(Kernel{}, "File", "Edition"),
	cmpopts.IgnoreFields(Workspace{}, "File"),
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// TestDiagnostics holds the exact words and places of what users read.
func TestDiagnostics(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".toml")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = ParseBuild("build.toml", data)
			var ps Problems
			if !errors.As(err, &ps) {
				t.Fatalf("got %v, want Problems", err)
			}
			for _, p := range ps {
				if p.ID == "" || p.Message == "" || !p.Pos.IsValid() {
					t.Errorf("incomplete problem %+v", p)
				}
			}
			golden(t, strings.TrimSuffix(file, ".toml")+".txt", []byte(ps.Error()+"\n"))
		})
	}
}

func TestGoodFilesPrintAndParse(t *testing.T) {
	files, _ := filepath.Glob("testdata/good/*.toml")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b, err := ParseBuild(file, data)
		if err != nil {
			t.Errorf("%s:\n%v", file, err)
			continue
		}
		if b.Kernel == nil {
			continue
		}
		checkPrint(t, b.Kernel)
	}
}

// checkPrint holds that printing loses nothing and is stable.
func checkPrint(t *testing.T, k *Kernel) {
	t.Helper()
	text := k.Print()
	again, err := ParseBuild("printed", text)
	if err != nil {
		t.Fatalf("printed form is not valid: %v\n%s", err, text)
	}
	if again.Kernel.Edition != 5 {
		t.Errorf("printed as edition %d", again.Kernel.Edition)
	}
	if diff := cmp.Diff(k, again.Kernel, sameKernel); diff != "" {
		t.Errorf("after print and parse (-before +after):\n%s", diff)
	}
	if second := again.Kernel.Print(); !bytes.Equal(second, text) {
		t.Errorf("printed differently the second time:\n%s", cmp.Diff(string(text), string(second)))
	}
}

func TestFullKernel(t *testing.T) {
	data, err := os.ReadFile("testdata/good/full.toml")
	if err != nil {
		t.Fatal(err)
	}
	b, err := ParseBuild("build.toml", data)
	if err != nil {
		t.Fatal(err)
	}
	two, zero := 2, 0
	want := &Kernel{
		General: General{
			Name: "full--kernel2", Version: 3, License: "apache-2.0",
			Backends:      Backends,
			Upstream:      "https://example.com/up",
			Source:        "git+ssh://git@example.com/src",
			PythonDepends: []string{"einops", "tvm-ffi"},
			KernelDepends: []KernelDependency{{RepoID: "a/b", Version: &zero}, {RepoID: "c/d", Revision: "main"}},
			Hub:           Hub{"owner/full-kernel", "v3-rc"},
			CUDA:          CUDAGeneral{Version{12, 6}, Version{13, 0}, BackendGeneral{[]string{"nvidia-cutlass-dsl"}, []KernelDependency{}}},
			Neuron:        BackendGeneral{PythonDepends: []string{"nki"}},
			TPU:           BackendGeneral{PythonDepends: []string{}},
			XPU:           BackendGeneral{[]string{"onednn"}, []KernelDependency{{RepoID: "x/y", Version: &two}}},
		},
		Torch: &TorchTable{
			Src: []string{"torch-ext/torch_binding.cpp", "torch-ext/torch_binding.h"}, Include: []string{"."}, PyExt: []string{"py", "json"},
			MinVer: Version{2, 9}, MaxVer: Version{2, 15}, CxxFlags: []string{"-O3"},
			StableABI: StableABI{ByBackend: map[Backend]Version{CUDA: {2, 10}, CPU: {2, 9}}},
		},
		Sections: []Section{
			{Name: "cuda", Backend: CUDA, Depends: []string{"cutlass_4_0"}, Src: []string{"cuda/a.cu"}, Include: []string{"cuda"},
				CUDACapabilities: []string{"8.0", "9.0a", "10.0f", "12.0+PTX"}, CUDAFlags: []string{"--use_fast_math"}, CUDAMinVer: Version{12, 8}},
			{Name: "metal", Backend: Metal, Depends: []string{"metal-cpp"}, Src: []string{"metal/a.metal", "metal/a.mm"}},
			{Name: "rocm.x", Backend: ROCm, Src: []string{"cuda/a.cu"}, ROCmArchs: []string{"gfx90a", "gfx1100"}, HIPFlags: []string{"-O3"}},
			{Name: "xpu", Backend: XPU, Depends: []string{"sycl_tla"}, Src: []string{"xpu/a.cpp"}, SYCLFlags: []string{}},
			{Name: "z_cpu", Backend: CPU, Depends: []string{"torch"}, Src: []string{"cpu/a.cpp"}, CxxFlags: []string{"-mavx2", `-DX="y"`}},
		},
	}
	if diff := cmp.Diff(want, b.Kernel, sameKernel); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if pos := b.Kernel.Pos("kernel.cuda.cuda-capabilities[1]").String(); pos != "build.toml:53:29" {
		t.Errorf("position of 9.0a: %s", pos)
	}
	if k := b.Kernel; k.PythonName() != "full__kernel2" || k.Branch() != "v3-rc" {
		t.Errorf("python name %s, branch %s", k.PythonName(), k.Branch())
	}
}

func FuzzBuild(f *testing.F) {
	for _, dir := range []string{"testdata/good/*.toml", "testdata/bad/*.toml"} {
		files, _ := filepath.Glob(dir)
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := ParseBuild("fuzz", data)
		if err != nil {
			for _, p := range err.(Problems) {
				if p.Pos.Line < 1 || p.Pos.Col < 1 {
					t.Fatalf("no place: %+v", p)
				}
			}
			return
		}
		if b.Kernel != nil {
			checkPrint(t, b.Kernel)
			out, err := Convert("fuzz", data)
			if err != nil {
				return // a form that it says it does not edit
			}
			c, err := ParseBuild("converted", out)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(b.Kernel, c.Kernel, sameKernel); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}
