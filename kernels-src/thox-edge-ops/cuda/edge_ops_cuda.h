// Launch functions of the CUDA backend: raw pointers, sizes, strides, a stream.
//
// Each function enqueues its work on `stream` of the current device, never
// synchronizes, and returns a cudaError_t as int: 0, or the error of the launch.
// Empty inputs launch nothing and return 0.
#pragma once

#include "../edge_ops_args.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

namespace thox_edge_ops_cuda {

using namespace thox_edge_ops;
using NormArgs = BasicNormArgs<void*, const void*>;
using GateArgs = BasicGateArgs<void*, const void*>;
using RotaryArgs = BasicRotaryArgs<void*, const void*>;
using PrologueArgs = BasicPrologueArgs<void*, const void*>;

int rms_norm(const NormArgs& args, DType dtype, void* stream);
int act_and_mul(const GateArgs& args, Act act, DType dtype, void* stream);
int rotary_embedding(const RotaryArgs& args, DType dtype, void* stream);
int qk_norm_rope(const PrologueArgs& args, DType dtype, void* stream);

}  // namespace thox_edge_ops_cuda

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
