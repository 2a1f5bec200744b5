package compile

import (
	"fmt"
	"slices"

	"github.com/thox-ai/thoxbuild/compile/source"
	"github.com/thox-ai/thoxbuild/matrix"
)

// compileDevice plans the action for a .cu, .hip or SYCL source. One that includes
// no torch header depends on the toolkit and the device list only, so all
// torch versions share it.
func (p *Plan) compileDevice(t *tree, v matrix.Variant, ts *Toolset, u *unit, ops string) (*Action, error) {
	if ts.Device == nil {
		return nil, fmt.Errorf("%s: no device compiler for %s", u.src, v.Compute)
	}
	section, ok := p.cfg.Kernel.Section(u.section)
	if !ok {
		return nil, fmt.Errorf("%v: %s: device code belongs into a [kernel.<name>] section, which says for which devices it is", p.cfg.Kernel.Pos("torch.src"), u.src)
	}
	dialect := ts.Device.Dialect
	if (dialect == HIPCC) != (len(section.ROCmArchs) > 0 || section.Backend == "rocm") {
		return nil, fmt.Errorf("%s: the compiler for %s is %s", u.src, v.Compute, dialect)
	}
	tool, err := p.withHeaders(ts.Device.Tool, v, ts, u)
	if err != nil {
		return nil, err
	}
	std := cxxStandard(ts, u.reads.Torch)
	if ts.Device.HostStd == 17 {
		std = "-std=c++17"
	}
	args := append(slices.Clone(tool.Args), std, "-O3", "-DNDEBUG")
	var user []string
	switch dialect {
	case NVCC:
		flags, err := gencode(u.archs)
		if err != nil {
			return nil, err
		}
		args = append(args, "-Xcompiler=-fPIC", "--expt-relaxed-constexpr")
		if !u.reads.Torch {
			args = append(args, "-Xcompiler=-fvisibility=hidden")
		}
		args, user = append(args, flags...), section.CUDAFlags
	case ClangCUDA:
		flags, err := clangArchs(u.archs)
		if err != nil {
			return nil, err
		}
		args = append(args, "-fPIC", "-x", "cuda")
		if !u.reads.Torch {
			args = append(args, "-fvisibility=hidden")
		}
		args, user = append(args, flags...), clangCUDAFlags(section.CUDAFlags)
	case HIPCC:
		args = append(args, "-fPIC")
		if !u.reads.Torch {
			args = append(args, "-fvisibility=hidden")
		}
		for _, a := range u.archs {
			args = append(args, "--offload-arch="+a)
		}
		user = section.HIPFlags
	case ICPX:
		if u.kind != source.CXX {
			return nil, fmt.Errorf("%s: icpx compiles C++ with SYCL in it, no CUDA", u.src)
		}
		if !u.reads.Torch {
			args = append(args, "-fvisibility=hidden")
		}
		user = slices.Concat(section.CxxFlags, section.SYCLFlags)
	default:
		return nil, fmt.Errorf("%s: %s does not compile it", u.src, dialect)
	}
	args = append(args, p.defines(v, u, ops)...)
	if section.Backend == "cuda" {
		args = append(args, "-DENABLE_FP8")
	}
	for _, d := range p.existingDirs(t, u) {
		args = append(args, "-I"+d)
	}
	args = append(args, user...)
	src, inputs := u.src, u.inputs
	if u.kind == source.CUDA && dialect == HIPCC {
		if src, inputs, err = p.hipify(v, ts, u, inputs); err != nil {
			return nil, err
		}
	}
	args = append(args, "-c", src, "-o", objectOut)
	return p.add(&Action{
		Kind:     KindDevice,
		Label:    fmt.Sprintf("compile %s (%s)", u.src, p.where(v, u)),
		args:     args,
		env:      baseEnv(tool.Env),
		outputs:  []string{objectOut},
		platform: platformOf(v, tool),
		inputs:   inputs,
		missing:  missingNames(u.reads),
	}, v.Name.String())
}

// clangCUDAFlags says nvcc's flags in clang's words where the two differ, and
// leaves out what clang does anyway.
func clangCUDAFlags(flags []string) []string {
	var out []string
	for i := 0; i < len(flags); i++ {
		switch f := flags[i]; f {
		case "--expt-relaxed-constexpr", "-expt-relaxed-constexpr", "--expt-extended-lambda", "-expt-extended-lambda", "--extended-lambda", "-lineinfo", "--generate-line-info":
		case "--use_fast_math", "-use_fast_math":
			out = append(out, "-fgpu-approx-transcendentals", "-fgpu-flush-denormals-to-zero", "-ffast-math")
		case "-Xptxas", "--ptxas-options":
			if i+1 < len(flags) {
				i++
				out = append(out, "-Xcuda-ptxas", flags[i])
			}
		case "-Xcompiler", "--compiler-options":
			if i+1 < len(flags) {
				i++
				out = append(out, flags[i])
			}
		default:
			out = append(out, f)
		}
	}
	return out
}
