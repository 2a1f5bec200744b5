"""Builds SGLang's own kernels for the shapes of the benchmark, as a peer.

The wheel of sglang 0.5.23 carries them as headers that SGLang compiles at run time for one
hidden size or head size each. build() compiles the ones needed here with nvcc, the flags
and template arguments that SGLang's loader uses (sglang/kernels/ops), into one library for
this GPU, which the package apache-tvm-ffi loads. Nothing of SGLang is part of this
project: `folder` is `sglang/kernels/jit` of an unpacked wheel.
"""

import pathlib
import subprocess
import tempfile

INCLUDES = ("container/tensor.h", "dtype.h", "error.h", "extra/c_env_api.h", "function.h")


def norm_class(width):
    """The kernel that SGLang picks for a hidden size (its layernorm/norm.py)."""
    if width in (64, 128, 256):
        return "RMSNormWarpKernel"
    if width == 512 or width >= 2048 and width % 512 == 0:
        return "RMSNormHalfKernel"
    return "RMSNormKernel"


def exports(widths, heads):
    """(header, flags, [(name, kernel)]) of each translation unit."""
    return [
        ("elementwise/rmsnorm.cuh", [], [(f"rmsnorm_{w}", f"{norm_class(w)}<{w}, true, bf16_t>::run") for w in widths]),
        ("elementwise/fused_add_rmsnorm.cuh", [], [("fused_add_rmsnorm", "FusedAddRMSNormKernel<false, bf16_t>::run")]),
        ("elementwise/activation.cuh", ["--use_fast_math"], [("run_activation", "ActivationKernel<bf16_t, true>::run_activation")]),
        ("elementwise/rope.cuh", [], [(f"rope_{d}", f"FusedRopeKernel<true, {d}, true, bf16_t, bf16_t>::run") for d in heads]),
        (
            "diffusion/qknorm_rope.cuh",
            [],
            [(f"qknorm_rope_{d}", f"QKNormRopeKernel<{d}, {d}, true, true, bf16_t, bf16_t, true, false, true>::run") for d in heads],
        ),
    ]


def build(folder, widths=(1024, 2560, 4096), heads=(128, 256), nvcc="nvcc", arch="90"):
    """The path of a library with rmsnorm_<width>, fused_add_rmsnorm, run_activation, rope_<dim>, qknorm_rope_<dim>."""
    from tvm_ffi import libinfo

    folder = pathlib.Path(folder).resolve()
    out = pathlib.Path(tempfile.mkdtemp(prefix="sglang-peer-"))
    include = [folder / "include", folder / "csrc", libinfo.find_include_path(), libinfo.find_dlpack_include_path()]
    flags = ["-std=c++20", "-O3", f"-arch=sm_{arch}", f"-DSGL_CUDA_ARCH={arch}0", "--expt-relaxed-constexpr", "-Xcompiler=-fPIC"]
    running, objects = [], []
    for i, (header, extra, wrappers) in enumerate(exports(widths, heads)):
        lines = [f"#include <tvm/ffi/{h}>" for h in INCLUDES] + [f'#include "{header}"', "namespace sglang {"]
        lines += [f"TVM_FFI_DLL_EXPORT_TYPED_FUNC({name}, ({kernel}));" for name, kernel in wrappers]
        source = out / f"{i}.cu"
        source.write_text("\n".join([*lines, "}"]) + "\n")
        objects.append(out / f"{i}.o")
        command = [nvcc, *flags, *extra, *(f"-I{p}" for p in include), "-c", source, "-o", objects[-1]]
        running.append((header, subprocess.Popen(command, stderr=subprocess.PIPE, text=True)))
    for header, process in running:
        _, errors = process.communicate()
        if process.returncode:
            raise RuntimeError(f"{header}: {errors[-2000:]}")
    library = out / "sglang_peer.so"
    subprocess.run([nvcc, "-shared", "-o", library, *objects, f"-L{libinfo.find_libtvm_ffi().rsplit('/', 1)[0]}", "-ltvm_ffi"], check=True)
    return library
