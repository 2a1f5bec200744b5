// From the arguments of an operator to one launch: which shader, its
// parameters, its buffers, the grid. Plain C++ without Metal or torch, so that
// the tests run the shaders exactly as a Mac would launch them.
#pragma once

#include <cstdint>
#include <cstring>

#include "args.h"
#include "edge_ops_metal.h"

namespace thox_edge_ops_metal {

// Shaders of one operator, in the order of DType.
struct Names {
  const char* of[3];
};

struct Launch {
  const char* shader = nullptr;  // null: nothing to do
  const char* error = nullptr;   // not null: the sizes that no launch can take

  // Parameters go to buffer index 0, buffers[i] to index i + 1.
  alignas(8) unsigned char params[sizeof(PrologueParams)] = {};
  size_t params_size = 0;
  Buffer buffers[6];
  int buffer_count = 0;

  uint32_t groups_x = 0, groups_y = 0;  // threadgroups
  uint32_t threads = 0;                 // per threadgroup, a multiple of thread_step
  uint32_t thread_step = kLanes;        // fewer threads are fine in these steps
  bool fixed_threads = false;           // the grid was cut for this many threads
  uint32_t threadgroup_bytes = 0;

  template <class Params>
  void set_params(const Params& p) {
    static_assert(sizeof(Params) <= sizeof(params), "the parameters do not fit");
    std::memcpy(params, &p, sizeof p);
    params_size = sizeof p;
  }
  void add(const Buffer& b) { buffers[buffer_count++] = b; }
};

namespace plan_detail {

constexpr int64_t kMaxIndex = 0x7fffffff - 65536;  // room for a step past the end

inline int64_t div_up(int64_t n, int64_t d) { return (n + d - 1) / d; }
inline int size_of(DType dtype) { return dtype == kFloat32 ? 4 : 2; }
inline bool aligned(const Buffer& b, int element) { return b.offset % (element * kVector) == 0; }
inline bool in_vectors(int64_t n) { return n % kVector == 0; }

inline Launch too_large(const char* what) {
  Launch l;
  l.error = what;
  return l;
}

// Slices of a row: one for each simdgroup that would hold one vector per lane.
inline int slices_of(int64_t cols) {
  const int64_t n = div_up(div_up(cols, kVector), kLanes);
  return n < kMaxSlices ? int(n) : int(kMaxSlices);
}

inline RotaryParams rotary_params(const RotaryArgs& a, DType dtype) {
  const int element = size_of(dtype), cache_element = a.cache_is_float32 ? 4 : element;
  RotaryParams p{};
  p.q_token_stride = a.q_token_stride, p.q_head_stride = a.q_head_stride;
  p.k_token_stride = a.k_token_stride, p.k_head_stride = a.k_head_stride;
  p.position_stride = a.position_stride;
  p.cache_rows = a.cache_rows, p.cache_stride = a.cache_stride;
  p.q_heads = a.q_heads, p.k_heads = a.k_heads;
  p.head_dim = a.head_dim, p.half_dim = a.rotary_dim / 2;
  p.positions_are_int64 = a.positions_are_int64;
  p.cache_is_float32 = a.cache_is_float32;
  p.interleaved = a.interleaved;
  p.aligned = in_vectors(a.head_dim) && in_vectors(p.half_dim) && aligned(a.q, element) && aligned(a.k, element) &&
              in_vectors(a.q_token_stride) && in_vectors(a.q_head_stride) && in_vectors(a.k_token_stride) &&
              in_vectors(a.k_head_stride) && aligned(a.cos_sin_cache, cache_element) && in_vectors(a.cache_stride);
  return p;
}

}  // namespace plan_detail

inline Launch plan_norm(const NormArgs& a, DType dtype) {
  using namespace plan_detail;
  static const Names norm{{"rms_norm_float32", "rms_norm_float16", "rms_norm_bfloat16"}};
  static const Names add{{"fused_add_rms_norm_float32", "fused_add_rms_norm_float16", "fused_add_rms_norm_bfloat16"}};
  Launch l;
  if (a.rows == 0 || a.cols == 0) return l;
  if (a.cols > kMaxIndex) return too_large("rows of more than 2^31 elements");
  const int element = size_of(dtype);
  const bool has_residual = a.residual.buffer != nullptr;
  NormParams p{};
  p.rows = a.rows, p.cols = int(a.cols);
  p.out_stride = a.out_stride, p.x_stride = a.x_stride, p.residual_stride = a.residual_stride;
  p.slices = slices_of(a.cols);
  p.rows_per_group = p.slices >= 4 || a.rows == 1 ? 1 : 4 / p.slices;
  p.aligned = in_vectors(a.cols) && in_vectors(a.out_stride) && in_vectors(a.x_stride) && aligned(a.out, element) &&
              aligned(a.x, element) && aligned(a.weight, element) &&
              (!has_residual || (in_vectors(a.residual_stride) && aligned(a.residual, element)));
  p.inverse_cols = 1.0f / float(a.cols), p.eps = a.eps, p.weight_offset = a.weight_offset;
  const int64_t groups = div_up(a.rows, p.rows_per_group);
  if (groups > kMaxIndex) return too_large("more than 2^31 rows");
  l.shader = (has_residual ? add : norm).of[dtype];
  l.set_params(p);
  l.add(a.out), l.add(a.x), l.add(a.weight);
  if (has_residual) l.add(a.residual);
  l.groups_x = uint32_t(groups), l.groups_y = 1;
  l.thread_step = uint32_t(kLanes * p.rows_per_group);
  l.threads = l.thread_step * uint32_t(p.slices);
  l.threadgroup_bytes = uint32_t(div_up(p.rows_per_group * p.slices * int64_t(sizeof(float)), 16) * 16);
  return l;
}

inline Launch plan_gate(const GateArgs& a, Act act, DType dtype) {
  using namespace plan_detail;
  static const Names silu{{"silu_and_mul_float32", "silu_and_mul_float16", "silu_and_mul_bfloat16"}};
  static const Names gelu{{"gelu_tanh_and_mul_float32", "gelu_tanh_and_mul_float16", "gelu_tanh_and_mul_bfloat16"}};
  Launch l;
  if (a.rows == 0 || a.cols == 0) return l;
  if (a.cols > kMaxIndex / 2) return too_large("rows of more than 2^30 elements");
  if (a.rows > kMaxIndex) return too_large("more than 2^31 rows");
  const int element = size_of(dtype);
  GateParams p{};
  p.out_stride = a.out_stride, p.x_stride = a.x_stride, p.cols = int(a.cols);
  p.aligned = in_vectors(a.cols) && in_vectors(a.out_stride) && in_vectors(a.x_stride) && aligned(a.out, element) &&
              aligned(a.x, element);
  l.shader = (act == kSilu ? silu : gelu).of[dtype];
  l.set_params(p);
  l.add(a.out), l.add(a.x);
  const int64_t vectors = div_up(a.cols, kVector);
  l.threads = vectors <= 128 ? uint32_t(div_up(vectors, kLanes) * kLanes) : 128;
  l.fixed_threads = true;
  l.groups_x = uint32_t(div_up(vectors, l.threads)), l.groups_y = uint32_t(a.rows);
  return l;
}

inline Launch plan_rotary(const RotaryArgs& a, DType dtype) {
  using namespace plan_detail;
  static const Names names{{"rotary_embedding_float32", "rotary_embedding_float16", "rotary_embedding_bfloat16"}};
  Launch l;
  const int64_t heads = int64_t(a.q_heads) + a.k_heads;
  if (a.tokens == 0 || heads == 0 || a.rotary_dim == 0) return l;
  const RotaryParams p = rotary_params(a, dtype);
  const int64_t work = div_up(p.half_dim, kVector) * heads;
  if (work > kMaxIndex || a.head_dim > kMaxIndex) return too_large("a token of more than 2^31 elements");
  if (a.tokens > kMaxIndex) return too_large("more than 2^31 tokens");
  l.shader = names.of[dtype];
  l.set_params(p);
  l.add(a.q), l.add(a.k), l.add(a.positions), l.add(a.cos_sin_cache);
  l.threads = work <= 128 ? uint32_t(div_up(work, kLanes) * kLanes) : 128;
  l.fixed_threads = true;
  l.groups_x = uint32_t(div_up(work, l.threads)), l.groups_y = uint32_t(a.tokens);
  return l;
}

inline Launch plan_prologue(const PrologueArgs& a, DType dtype) {
  using namespace plan_detail;
  static const Names names{{"qk_norm_rope_float32", "qk_norm_rope_float16", "qk_norm_rope_bfloat16"}};
  Launch l;
  const RotaryArgs& r = a.rotary;
  const int64_t heads = int64_t(r.q_heads) + r.k_heads;
  if (r.tokens == 0 || heads == 0 || r.head_dim == 0) return l;
  if (heads > kMaxIndex || r.head_dim > kMaxIndex) return too_large("a token of more than 2^31 elements");
  if (r.tokens > kMaxIndex) return too_large("more than 2^31 tokens");
  const int element = size_of(dtype);
  PrologueParams p{};
  p.rotary = rotary_params(r, dtype);
  p.rotary.aligned = p.rotary.aligned && aligned(a.q_weight, element) && aligned(a.k_weight, element);
  p.slices = slices_of(r.head_dim);
  p.inverse_dim = 1.0f / float(r.head_dim), p.eps = a.eps, p.weight_offset = a.weight_offset;
  l.shader = names.of[dtype];
  l.set_params(p);
  l.add(r.q), l.add(r.k), l.add(r.positions), l.add(r.cos_sin_cache), l.add(a.q_weight), l.add(a.k_weight);
  const int64_t simdgroups = heads < 4 ? heads : 4;  // a head each
  l.threads = uint32_t(simdgroups * kLanes);
  l.fixed_threads = true;
  l.groups_x = uint32_t(div_up(heads, simdgroups)), l.groups_y = uint32_t(r.tokens);
  return l;
}

}  // namespace thox_edge_ops_metal
