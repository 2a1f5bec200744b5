package compile

import (
	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/toolchain"
)

// FromKit makes the tool set of a variant from the kit that a toolchain made
// for its torch release and platform.
func FromKit(k *toolchain.Kit, torch manifests.Version) *Toolset {
	ts := &Toolset{
		CXX: Tool{k.CXX.Args, k.CXX.Env, map[string]string{"cxx": k.CXX.Fingerprint}},
		Link: Linker{
			Tool: Tool{k.Link.Args, k.Link.Env, map[string]string{"link": k.Link.Fingerprint}},
			// Command puts "-o OUTPUT" behind the arguments, then the objects,
			// then what has to follow them.
			After: k.Link.Command("", nil, nil)[len(k.Link.Args)+2:],
			Ready: k.Linkable,
		},
	}
	if e := k.EarlyLink(); e != nil {
		ts.Link.Early = &EarlyLink{e.From, e.To, e.Ready, toolchain.LinkedWhole}
	}
	if len(k.TorchIncludes) > 0 {
		ts.TorchStandard = toolchain.TorchStandard(torch)
		ts.Torch.Fingerprints = map[string]string{"torch": k.TorchCXX.Fingerprint}
		for _, d := range k.TorchIncludes {
			ts.Torch.Flags = append(ts.Torch.Flags, "-I"+d)
		}
	}
	if c := k.CUDA; c != nil {
		ts.Device = &DeviceTool{Tool: Tool{c.Compiler.Args, c.Compiler.Env, map[string]string{"cuda": c.Compiler.Fingerprint}}, Dialect: NVCC}
		if c.Clang {
			ts.Device.Dialect = ClangCUDA
		}
		ts.DeviceHost = &Headers{Fingerprints: map[string]string{"cuda-headers": c.HeadersFingerprint}}
		for _, d := range c.Includes {
			ts.DeviceHost.Flags = append(ts.DeviceHost.Flags, "-I"+d)
		}
	}
	for dialect, d := range map[DeviceDialect]*toolchain.Device{HIPCC: k.HIP, ICPX: k.SYCL} {
		if d == nil {
			continue
		}
		ts.Device = &DeviceTool{Tool: Tool{d.Compiler.Args, d.Compiler.Env, map[string]string{string(dialect): d.Compiler.Fingerprint}}, Dialect: dialect}
		if len(d.Hipify.Args) > 0 {
			ts.Device.Hipify = &Tool{d.Hipify.Args, d.Hipify.Env, map[string]string{"hipify": d.Hipify.Fingerprint}}
		}
		ts.DeviceHost = &Headers{Fingerprints: map[string]string{string(dialect) + "-headers": d.HeadersFingerprint}}
		for _, dir := range d.Includes {
			ts.DeviceHost.Flags = append(ts.DeviceHost.Flags, "-I"+dir)
		}
	}
	if m := k.Metal; m != nil {
		ts.Metal = &MetalTool{Tool: Tool{m.Args, m.Env, map[string]string{"metal": m.Fingerprint}}, Host: ts.CXX}
	}
	if k.Platform.OS == manifests.Linux && k.SYCL == nil && len(k.Link.Args) > 2 {
		emulation := map[manifests.Arch]string{manifests.X86_64: "elf_x86_64", manifests.AArch64: "aarch64linux"}[k.Platform.Arch]
		ts.Relocate = &Tool{
			Args: append(append([]string(nil), k.Link.Args[:2]...), "-m", emulation),
			Env:  k.Link.Env, Fingerprints: ts.Link.Fingerprints,
		}
	}
	return ts
}
