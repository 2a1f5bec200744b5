// What the operators work on, in the words of every backend: pointers, sizes
// and strides.
//
// No torch header is included on either side of this interface, so the code
// behind it is compiled once and serves every torch version. All sizes and
// strides count elements, never bytes. The last dimension of every tensor is
// contiguous. Data and ConstData point to a tensor's first element: void* and
// const void* where a tensor has an address, a buffer with an offset on Metal.
#pragma once

#include <stdint.h>

namespace thox_edge_ops {

// Element types. Arithmetic is fp32 for all of them, with one rounding of
// each stored value (round to nearest even).
enum DType : int { kFloat32 = 0, kFloat16 = 1, kBFloat16 = 2 };

// The gate's activation.
enum Act : int { kSilu = 0, kGeluTanh = 1 };

// out[r, :] = x[r, :] * rsqrt(mean(x[r, :]^2) + eps) * (weight + weight_offset)
template <typename Data, typename ConstData>
struct BasicNormArgs {
  Data out;          // [rows, cols], may be x itself
  ConstData x;       // [rows, cols]
  Data residual;     // null, or [rows, cols]: residual += x, then its norm
  ConstData weight;  // [cols]
  int64_t rows, cols;
  int64_t out_stride, x_stride, residual_stride;  // between rows
  float eps, weight_offset;
};

// out[r, c] = act(x[r, c]) * x[r, c + cols]
template <typename Data, typename ConstData>
struct BasicGateArgs {
  Data out;     // [rows, cols]
  ConstData x;  // [rows, 2 * cols]
  int64_t rows, cols;
  int64_t out_stride, x_stride;  // between rows
};

// Rotates the first rotary_dim coordinates of every head of q and k in place
// by the angles cached for the token's position. A token whose position lies
// outside [0, cache_rows) is not rotated.
template <typename Data, typename ConstData>
struct BasicRotaryArgs {
  Data q;  // [tokens, q_heads, head_dim]
  Data k;  // [tokens, k_heads, head_dim]
  int64_t tokens;
  int q_heads, k_heads, head_dim, rotary_dim;
  int64_t q_token_stride, q_head_stride, k_token_stride, k_head_stride;
  ConstData positions;  // [tokens], int32 or int64
  int64_t position_stride;
  bool positions_are_int64;
  ConstData cos_sin_cache;  // [cache_rows, rotary_dim]: cosines, then sines
  int64_t cache_rows, cache_stride;
  bool cache_is_float32;  // otherwise the cache has q's dtype
  bool interleaved;       // pairs (2i, 2i+1) instead of (i, i + rotary_dim/2)
};

// RMSNorm of every head of q and k in place, rounded to the dtype, followed by
// the rotation above. A token outside the cache is normalized and not rotated.
template <typename Data, typename ConstData>
struct BasicPrologueArgs {
  BasicRotaryArgs<Data, ConstData> rotary;
  ConstData q_weight;  // [head_dim]
  ConstData k_weight;  // [head_dim]
  float eps, weight_offset;
};

}  // namespace thox_edge_ops
