// Launch functions of the CUDA backend: raw pointers, sizes, strides, a stream.
//
// No torch header is included on either side of this interface, so the device
// code is compiled once per CUDA version and serves every torch version. All
// sizes and strides count elements, never bytes. The last dimension of every
// tensor is contiguous. Each function enqueues its work on `stream` of the
// current device, never synchronizes, and returns a cudaError_t as int: 0, or
// the error of the launch. Empty inputs launch nothing and return 0.
#pragma once

#include <stdint.h>

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

namespace thox_edge_ops_cuda {

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
int rms_norm(const NormArgs& args, DType dtype, void* stream);

// out[r, c] = act(x[r, c]) * x[r, c + cols]
struct GateArgs {
  void* out;      // [rows, cols]
  const void* x;  // [rows, 2 * cols]
  int64_t rows, cols;
  int64_t out_stride, x_stride;  // between rows
};
int act_and_mul(const GateArgs& args, Act act, DType dtype, void* stream);

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
int rotary_embedding(const RotaryArgs& args, DType dtype, void* stream);

// RMSNorm of every head of q and k in place, rounded to the dtype, followed by
// the rotation above. A token outside the cache is normalized and not rotated.
struct PrologueArgs {
  RotaryArgs rotary;
  const void* q_weight;  // [head_dim]
  const void* k_weight;  // [head_dim]
  float eps, weight_offset;
};
int qk_norm_rope(const PrologueArgs& args, DType dtype, void* stream);

}  // namespace thox_edge_ops_cuda

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
