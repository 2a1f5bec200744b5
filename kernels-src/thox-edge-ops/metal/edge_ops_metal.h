// Launch functions of the Metal backend: buffers with offsets, sizes, strides.
//
// A tensor of torch's MPS device is a Metal buffer and an offset into it, not
// an address. All sizes and strides count elements, offsets count bytes. The
// last dimension of every tensor is contiguous. Each function encodes its work
// on torch's current MPS stream, never waits for it, and returns null or what
// went wrong. Empty inputs encode nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

namespace thox_edge_ops_metal {

// Element types. Arithmetic is fp32 for all of them, with one rounding of
// each stored value (round to nearest even).
enum DType : int { kFloat32 = 0, kFloat16 = 1, kBFloat16 = 2 };

// The gate's activation.
enum Act : int { kSilu = 0, kGeluTanh = 1 };

struct Buffer {
  void* buffer = nullptr;  // id<MTLBuffer>; its start is aligned to a page
  int64_t offset = 0;      // of the first element, in bytes

  Buffer(std::nullptr_t = nullptr) {}
  Buffer(void* buffer, int64_t offset) : buffer(buffer), offset(offset) {}
};

// out[r, :] = x[r, :] * rsqrt(mean(x[r, :]^2) + eps) * (weight + weight_offset)
struct NormArgs {
  Buffer out;       // [rows, cols], may be x itself
  Buffer x;         // [rows, cols]
  Buffer residual;  // null, or [rows, cols]: residual += x, then its norm
  Buffer weight;    // [cols]
  int64_t rows, cols;
  int64_t out_stride, x_stride, residual_stride;  // between rows
  float eps, weight_offset;
};

// out[r, c] = act(x[r, c]) * x[r, c + cols]
struct GateArgs {
  Buffer out;  // [rows, cols]
  Buffer x;    // [rows, 2 * cols]
  int64_t rows, cols;
  int64_t out_stride, x_stride;  // between rows
};

// Rotates the first rotary_dim coordinates of every head of q and k in place
// by the angles cached for the token's position. A token whose position lies
// outside [0, cache_rows) is not rotated.
struct RotaryArgs {
  Buffer q;  // [tokens, q_heads, head_dim]
  Buffer k;  // [tokens, k_heads, head_dim]
  int64_t tokens;
  int q_heads, k_heads, head_dim, rotary_dim;
  int64_t q_token_stride, q_head_stride, k_token_stride, k_head_stride;
  Buffer positions;  // [tokens], int32 or int64
  int64_t position_stride;
  bool positions_are_int64;
  Buffer cos_sin_cache;  // [cache_rows, rotary_dim]: cosines, then sines
  int64_t cache_rows, cache_stride;
  bool cache_is_float32;  // otherwise the cache has q's dtype
  bool interleaved;       // pairs (2i, 2i+1) instead of (i, i + rotary_dim/2)
};

// RMSNorm of every head of q and k in place, rounded to the dtype, followed by
// the rotation above. A token outside the cache is normalized and not rotated.
struct PrologueArgs {
  RotaryArgs rotary;
  Buffer q_weight;  // [head_dim]
  Buffer k_weight;  // [head_dim]
  float eps, weight_offset;
};

// The stream is torch's current one. The message is valid until the thread's
// next call.
const char* rms_norm(const NormArgs& args, DType dtype, std::nullptr_t stream);
const char* act_and_mul(const GateArgs& args, Act act, DType dtype, std::nullptr_t stream);
const char* rotary_embedding(const RotaryArgs& args, DType dtype, std::nullptr_t stream);
const char* qk_norm_rope(const PrologueArgs& args, DType dtype, std::nullptr_t stream);

}  // namespace thox_edge_ops_metal

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
