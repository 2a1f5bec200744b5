package manifests

import (
	"strings"
	"testing"
)

func TestVariantNamesParseBackToThemselves(t *testing.T) {
	linux, arm := Platform{X86_64, Linux}, Platform{AArch64, Linux}
	mac := Platform{AArch64, Darwin}
	v := MustVersion
	for name, want := range map[string]VariantName{
		// Measured with the upstream functions.
		"torch213-cxx11-cu132-x86_64-linux":         {Torch, v("2.13"), Compute{CUDA, v("13.2")}, linux},
		"torch-stable-abi211-cu126-x86_64-linux":    {TorchStableABI, v("2.11"), Compute{CUDA, v("12.6")}, linux},
		"torch213-cxx11-xpu20260-x86_64-linux":      {Torch, v("2.13"), Compute{XPU, v("2026.0")}, linux},
		"torch29-cu128-x86_64-windows":              {Torch, v("2.9"), Compute{CUDA, v("12.8")}, Platform{X86_64, Windows}},
		"torch213-metal-aarch64-darwin":             {Torch, v("2.13"), Compute{Backend: Metal}, mac},
		"torch212-cpu-aarch64-darwin":               {Torch, v("2.12"), Compute{Backend: CPU}, mac},
		"torch212-cxx11-cpu-aarch64-linux":          {Torch, v("2.12"), Compute{Backend: CPU}, arm},
		"torch212-cxx11-rocm72-x86_64-linux":        {Torch, v("2.12"), Compute{ROCm, v("7.2")}, linux},
		"torch210-cxx11-cu129-x86_64-linux":         {Torch, v("2.10"), Compute{CUDA, v("12.9")}, linux},
		"torch21-cxx11-cu121-x86_64-linux":          {Torch, v("2.1"), Compute{CUDA, v("12.1")}, linux},
		"torch-stable-abi29-metal-aarch64-darwin":   {TorchStableABI, v("2.9"), Compute{Backend: Metal}, mac},
		"tvm-ffi01-cu130-aarch64-linux":             {TVMFFI, v("0.1"), Compute{CUDA, v("13.0")}, arm},
		"tvm-ffi010-cpu-x86_64-linux":               {TVMFFI, v("0.10"), Compute{Backend: CPU}, linux},
		"torch213-cxx11-cann83-aarch64-linux":       {Torch, v("2.13"), Compute{CANN, v("8.3")}, arm},
		"torch213-cxx11-neuron-x86_64-linux":        {Torch, v("2.13"), Compute{Backend: Neuron}, linux},
		"torch-cuda":                                {Framework: TorchNoarch, Compute: Compute{Backend: CUDA}},
		"torch-npu":                                 {Framework: TorchNoarch, Compute: Compute{Backend: CANN}},
		"torch-universal":                           {Framework: TorchNoarch},
		"torch-tpu":                                 {Framework: TorchNoarch, Compute: Compute{Backend: TPU}},
		"torch-stable-abi210-cpu-x86_64-linux":      {TorchStableABI, v("2.10"), Compute{Backend: CPU}, linux},
		"torch-stable-abi211-xpu20253-x86_64-linux": {TorchStableABI, v("2.11"), Compute{XPU, v("2025.3")}, linux},
	} {
		got, err := ParseVariantName(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if got != want {
			t.Errorf("ParseVariantName(%q) = %+v, want %+v", name, got, want)
		}
		if want.String() != name {
			t.Errorf("String() = %q, want %q", want.String(), name)
		}
		if err := want.Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestVariantNamesThatTheLoaderMisreads(t *testing.T) {
	for name, wantErr := range map[string]string{
		"":                                           "expected it to start with",
		"jax-cpu":                                    "expected it to start with",
		"torch213-cxx11-cu1210-x86_64-linux":         "cuda 121.0",
		"torch213-cxx11-rocm710-x86_64-linux":        "rocm 71.0",
		"torch213-cxx11-xpu202510-x86_64-linux":      "xpu 20251.0",
		"torch2-cxx11-cpu-x86_64-linux":              "major and a minor",
		"torch205-cxx11-cpu-x86_64-linux":            "leading zeros",
		"torch213-cxx11-cu0126-x86_64-linux":         "leading zeros",
		"torch213-cxx11-cu1-x86_64-linux":            "expected cu<MAJOR><MINOR>",
		"torch213-cpu-x86_64-linux":                  "cxx11 tag",
		"torch213-cxx98-cpu-x86_64-linux":            "expected <compute>-<cpu>-<os>",
		"torch213-cxx11-metal-aarch64-darwin":        "cxx11 tag",
		"torch-stable-abi211-cxx11-cpu-x86_64-linux": "expected <compute>-<cpu>-<os>",
		"torch213-cxx11-cpu-amd64-linux":             "x86_64 or aarch64",
		"torch213-cxx11-cpu-x86_64-macos":            "linux, darwin or windows",
		"torch213-cxx11-cpu-x86_64-linux-extra":      "expected <compute>-<cpu>-<os>",
		"torch213-cxx11-CPU-x86_64-linux":            "compute",
		"torch213-cxx11-cuda-x86_64-linux":           "compute",
		"torch-cann":                                 "torch-npu",
		"torch-cuda-x86_64":                          "nothing after it",
		"torch-vulkan":                               "unknown backend",
		"torch٢13-cxx11-cpu-x86_64-linux":            "digits",
		"tvm-ffi-cpu-x86_64-linux":                   "major and a minor",
		"torch-stable-abi":                           "major and a minor",
		"torch213-cxx11-cu130-../../linux":           "expected <compute>-<cpu>-<os>",
	} {
		_, err := ParseVariantName(name)
		if err == nil || !strings.Contains(err.Error(), wantErr) {
			t.Errorf("ParseVariantName(%q) = %v, want an error with %q", name, err, wantErr)
		}
	}
}

// A value that was put together by hand is refused when its name would mean
// something else to the loader.
func TestVariantNameValidate(t *testing.T) {
	linux := Platform{X86_64, Linux}
	for _, v := range []VariantName{
		{Torch, Version{2, 13}, Compute{CUDA, Version{12, 10}}, linux},
		{Torch, Version{10, 0}, Compute{Backend: CPU}, linux},
		{Torch, Version{2, 13}, Compute{CPU, Version{1, 0}}, linux},
		{TorchNoarch, Version{2, 13}, Compute{Backend: CPU}, Platform{}},
		{},
	} {
		if err := v.Validate(); err == nil {
			t.Errorf("%+v prints %q and is accepted", v, v)
		}
	}
}

func FuzzVariantName(f *testing.F) {
	for _, s := range []string{
		"torch213-cxx11-cu132-x86_64-linux", "torch-stable-abi211-cu126-aarch64-linux",
		"tvm-ffi01-cpu-aarch64-darwin", "torch-npu", "torch29-cu128-x86_64-windows", "torch213-cxx11-cu1210-x86_64-linux",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseVariantName(s)
		if err != nil {
			return
		}
		if v.String() != s {
			t.Fatalf("%q prints as %q", s, v)
		}
		if err := v.Validate(); err != nil {
			t.Fatalf("accepted, then refused: %v", err)
		}
	})
}
