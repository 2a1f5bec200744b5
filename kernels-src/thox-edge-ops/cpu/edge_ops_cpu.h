// The CPU backend: raw pointers, sizes, strides and a way to run in parallel.
//
// No torch header is included on either side of this interface, so the code
// behind it is compiled once and serves every torch version. All sizes and
// strides count elements, never bytes. The last dimension of every tensor is
// contiguous. The structs have the same fields as those of the CUDA backend.
#pragma once

#include <stdint.h>

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

namespace thox_edge_ops_cpu {

// Element types. Arithmetic is fp32 for all of them, with one rounding of
// each stored value (round to nearest even).
enum DType : int { kFloat32 = 0, kFloat16 = 1, kBFloat16 = 2 };

// The gate's activation.
enum Act : int { kSilu = 0, kGeluTanh = 1 };

// out[r, :] = x[r, :] * rsqrt(mean(x[r, :]^2) + eps) * (weight + weight_offset)
struct NormArgs {
  void* out;           // [rows, cols], may be x itself
  const void* x;       // [rows, cols]
  void* residual;      // null, or [rows, cols]: residual += x, then its norm
  const void* weight;  // [cols]
  int64_t rows, cols;
  int64_t out_stride, x_stride, residual_stride;  // between rows
  float eps, weight_offset;
};

// out[r, c] = act(x[r, c]) * x[r, c + cols]
struct GateArgs {
  void* out;      // [rows, cols]
  const void* x;  // [rows, 2 * cols]
  int64_t rows, cols;
  int64_t out_stride, x_stride;  // between rows
};

// Rotates the first rotary_dim coordinates of every head of q and k in place
// by the angles cached for the token's position. A token whose position lies
// outside [0, cache_rows) is not rotated.
struct RotaryArgs {
  void* q;  // [tokens, q_heads, head_dim]
  void* k;  // [tokens, k_heads, head_dim]
  int64_t tokens;
  int q_heads, k_heads, head_dim, rotary_dim;
  int64_t q_token_stride, q_head_stride, k_token_stride, k_head_stride;
  const void* positions;  // [tokens], int32 or int64
  int64_t position_stride;
  bool positions_are_int64;
  const void* cos_sin_cache;  // [cache_rows, rotary_dim]: cosines, then sines
  int64_t cache_rows, cache_stride;
  bool cache_is_float32;  // otherwise the cache has q's dtype
  bool interleaved;       // pairs (2i, 2i+1) instead of (i, i + rotary_dim/2)
};

// RMSNorm of every head of q and k in place, rounded to the dtype, followed by
// the rotation above. A token outside the cache is normalized and not rotated.
struct PrologueArgs {
  RotaryArgs rotary;
  const void* q_weight;  // [head_dim]
  const void* k_weight;  // [head_dim]
  float eps, weight_offset;
};

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
