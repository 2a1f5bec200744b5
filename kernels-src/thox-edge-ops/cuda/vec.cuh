// Element types, 16-byte vectors and the warp sum that all kernels share.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

namespace thox_edge_ops_cuda {
namespace {

__device__ __forceinline__ float to_float(float v) { return v; }
__device__ __forceinline__ float to_float(__half v) { return __half2float(v); }
__device__ __forceinline__ float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }

template <typename T>
__device__ __forceinline__ T from_float(float v);
template <>
__device__ __forceinline__ float from_float<float>(float v) {
  return v;
}
template <>
__device__ __forceinline__ __half from_float<__half>(float v) {
  return __float2half_rn(v);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float v) {
  return __float2bfloat16_rn(v);
}

// Blocks of a size that one multiprocessor is asked to hold. Devices differ in
// how many threads that is (CUDA programming guide, compute capabilities), and
// ptxas warns about a wish that a device can never grant.
__host__ __device__ constexpr int resident(int threads, int blocks) {
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 750)
  return threads * blocks > 1024 ? 1024 / threads : blocks;
#elif defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 870 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1100)
  return threads * blocks > 1536 ? 1536 / threads : blocks;
#else
  return blocks;
#endif
}

// Elements of T in one 16-byte access.
template <typename T>
constexpr int kVec = 16 / int(sizeof(T));

template <typename T, int N>
struct alignas(sizeof(T) * N) Vec {
  T v[N];
};

// Reads elements [first, first + N) of a row. The aligned form is one access;
// the other reads element by element and fills with zeros beyond `end`, in the
// same order of elements, so both give the same sums bit for bit.
template <bool kAligned, int N, typename T, typename Index>
__device__ __forceinline__ Vec<T, N> load(const T* row, Index first, Index end) {
  Vec<T, N> r;
  if constexpr (kAligned) {
    r = *reinterpret_cast<const Vec<T, N>*>(row + first);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) r.v[i] = first + i < end ? row[first + i] : from_float<T>(0.f);
  }
  return r;
}

template <bool kAligned, int N, typename T, typename Index>
__device__ __forceinline__ void store(T* row, Index first, Index end, const Vec<T, N>& r) {
  if constexpr (kAligned) {
    *reinterpret_cast<Vec<T, N>*>(row + first) = r;
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (first + i < end) row[first + i] = r.v[i];
  }
}

// Sum over kLanes neighbouring lanes, the same value in each of them. The
// steps go from far to near: a group of 16 lanes then adds in the same order
// as a full warp whose upper lanes hold zeros, which makes the prologue's norm
// equal to rms_norm bit for bit.
template <int kLanes>
__device__ __forceinline__ float lane_sum(float v) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
  return v;
}

// x * rstd * w with two roundings in fp32 and no contraction, so that every
// kernel which normalizes gives the same bits.
__device__ __forceinline__ float scale(float x, float rstd, float w) {
  return __fmul_rn(__fmul_rn(x, rstd), w);
}

// The Programmatic Dependent Launch pair (CUDA programming guide): the next
// kernel of the stream may be scheduled now; nothing of the previous kernel's
// memory may be touched before the wait. Both are no-ops below sm_90 and in a
// launch without the attribute.
__device__ __forceinline__ void begin_dependent_launch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace
}  // namespace thox_edge_ops_cuda
