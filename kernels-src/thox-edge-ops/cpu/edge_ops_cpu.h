// The CPU backend: raw pointers, sizes, strides and a way to run in parallel.
#pragma once

#include "../edge_ops_args.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

namespace thox_edge_ops_cpu {

using namespace thox_edge_ops;
using NormArgs = BasicNormArgs<void*, const void*>;
using GateArgs = BasicGateArgs<void*, const void*>;
using RotaryArgs = BasicRotaryArgs<void*, const void*>;
using PrologueArgs = BasicPrologueArgs<void*, const void*>;

// Calls body(ctx, begin, end) on parts of [0, units) that cover it exactly
// once, on one or several threads. A part has at least `grain` units unless
// there are fewer. Returns when every part is done.
using Body = void (*)(const void* ctx, int64_t begin, int64_t end);
using ParallelFor = void (*)(int64_t units, int64_t grain, Body body, const void* ctx);

// Each operator does nothing on empty inputs. Which thread computes an element
// never changes its bits. Call select_unit() first: with no unit selected
// these functions must not be called.
void rms_norm(const NormArgs& args, DType dtype, ParallelFor parallel);
void act_and_mul(const GateArgs& args, Act act, DType dtype, ParallelFor parallel);
void rotary_embedding(const RotaryArgs& args, DType dtype, ParallelFor parallel);
void qk_norm_rope(const PrologueArgs& args, DType dtype, ParallelFor parallel);

// Selects the fastest unit that this CPU and operating system can run, or the
// one that THOX_EDGE_OPS_CPU_ISA names. The first call decides for the whole
// process. Returns null, or the reason why there is no unit.
const char* select_unit();

// The selected unit's name: "baseline", "avx2", "avx512", "avx512_bf16".
const char* unit_name();

// The names that THOX_EDGE_OPS_CPU_ISA accepts on this host, comma separated,
// slowest first.
const char* unit_choices();

}  // namespace thox_edge_ops_cpu

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
