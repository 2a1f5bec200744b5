// The rotation of a token's heads, shared by rotary_embedding and the prologue.
#pragma once

#include "edge_ops_cuda.h"
#include "vec.cuh"

namespace thox_edge_ops_cuda {
namespace {

__device__ __forceinline__ int64_t position_of(const RotaryArgs& p, int64_t token) {
  const int64_t i = token * p.position_stride;
  return p.positions_are_int64 ? static_cast<const int64_t*>(p.positions)[i]
                               : static_cast<const int32_t*>(p.positions)[i];
}

// The row of one head of q or k; heads of k follow those of q.
template <typename T>
__device__ __forceinline__ T* head_row(const RotaryArgs& p, int64_t token, int head) {
  return head < p.q_heads
             ? static_cast<T*>(p.q) + token * p.q_token_stride + head * p.q_head_stride
             : static_cast<T*>(p.k) + token * p.k_token_stride + (head - p.q_heads) * p.k_head_stride;
}

// N neighbouring cosines or sines as they lie in the cache, whose element type
// is C. They are converted at their use: a conversion right after the load
// would make everything in between wait for the load.
template <bool kAligned, int N, typename C>
struct Angles {
  static constexpr int kStep = N < kVec<C> ? N : kVec<C>;
  Vec<C, kStep> part[N / kStep];

  __device__ __forceinline__ void read(const C* row, int first) {
#pragma unroll
    for (int j = 0; j < N / kStep; ++j) part[j] = load<kAligned, kStep>(row, first + j * kStep, first + N);
  }
  __device__ __forceinline__ float operator[](int i) const { return to_float(part[i / kStep].v[i % kStep]); }
};

// (a, b) -> (a c - b s, b c + a s), contracted the same way everywhere.
__device__ __forceinline__ float rotate_first(float a, float b, float c, float s) { return fmaf(a, c, -__fmul_rn(b, s)); }
__device__ __forceinline__ float rotate_second(float a, float b, float c, float s) { return fmaf(b, c, __fmul_rn(a, s)); }

// True where 16-byte accesses to every head and to the cache are aligned.
template <typename T, typename C>
bool rotary_aligned(const RotaryArgs& p) {
  constexpr int N = kVec<T>;
  const int half = p.rotary_dim / 2;
  const int cache_step = N < kVec<C> ? N : kVec<C>;
  return aligned16(p.q) && aligned16(p.k) && aligned16(p.cos_sin_cache) && p.head_dim % N == 0 && half % N == 0 &&
         half % cache_step == 0 && p.cache_stride % kVec<C> == 0 && half % kVec<C> == 0 &&
         stride16(p.q_token_stride, N) && stride16(p.q_head_stride, N) && stride16(p.k_token_stride, N) &&
         stride16(p.k_head_stride, N);
}

}  // namespace
}  // namespace thox_edge_ops_cuda
