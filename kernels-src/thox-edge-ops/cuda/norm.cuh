// The sum of a row from the sums of its slices (norm.cu says what they are).
#pragma once

#include "launch.cuh"
#include "vec.cuh"

namespace thox_edge_ops_cuda {
namespace {

struct NormParams : NormArgs {
  float inverse_cols;
};

constexpr int kMaxSlices = 128;  // beyond, a row is read twice

__device__ __forceinline__ float4 plus(float4 a, float4 b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

// The sum of a row's slices, the same in every thread. partial[] holds one sum
// for each slice and zeros up to the next of 16 and 32. Up to 32
// slices are read as vectors by every thread and added in the order of
// lane_sum's butterfly, which costs half of what its shuffles do.
__device__ __forceinline__ float slice_sum(const float* partial, int slices) {
  if (slices > 32) {
    const int lane = threadIdx.x % 32;
    float v = partial[lane];
    for (int s = lane + 32; s < slices; s += 32) v += partial[s];
    return lane_sum<32>(v);
  }
  const float4* p = reinterpret_cast<const float4*>(partial);
  float4 v[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) v[i] = p[i];
  if (slices > 16) {
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = plus(v[i], p[i + 4]);
  }
  const float4 t = plus(plus(v[0], v[2]), plus(v[1], v[3]));
  return (t.x + t.z) + (t.y + t.w);
}

// The sums of a warp's kHeld slices over its lanes, in the order of lane_sum and
// so with its bits, but with fewer shuffles: a step in which lanes trade slices
// halves how many each of them still adds up. Lanes of a group of 32 / kHeld
// return the sum of the same slice, and *slice says which.
template <int kHeld>
__device__ __forceinline__ float held_sums(float (&sum)[kHeld], int* slice) {
  static_assert((kHeld & (kHeld - 1)) == 0 && kHeld <= 32, "lanes trade slices in pairs");
  int step = 16, which = 0;
#pragma unroll
  for (int left = kHeld / 2, bit = 1; left > 0; left /= 2, bit *= 2, step /= 2) {
    const bool upper = threadIdx.x & step;
    if (upper) which += bit;
#pragma unroll
    for (int j = 0; j < left; ++j) {
      const float mine = upper ? sum[2 * j + 1] : sum[2 * j];
      sum[j] = mine + __shfl_xor_sync(0xffffffffu, upper ? sum[2 * j] : sum[2 * j + 1], step);
    }
  }
#pragma unroll
  for (; step > 0; step /= 2) sum[0] += __shfl_xor_sync(0xffffffffu, sum[0], step);
  *slice = which;
  return sum[0];
}

// Floats that slice_sum may read of a row's partial sums.
__host__ __device__ constexpr int partials(int slices) { return slices <= 16 ? 16 : slices <= 32 ? 32 : slices; }

}  // namespace
}  // namespace thox_edge_ops_cuda
