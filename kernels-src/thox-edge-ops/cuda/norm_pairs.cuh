// The norm of rows that are an even number of whole slices, up to sixteen: in
// sixteen bits the hidden sizes 512 to 4096 in steps of 512.
#pragma once

#include "norm.cuh"

namespace thox_edge_ops_cuda {
namespace {

// One row per block, two neighbouring slices per warp. Nothing is compared with
// the row's end and every address is a constant away from another, so that 40
// registers a thread suffice: a single row is done sooner than in any other
// shape, and of many rows more are under way at a time. kMany: one warp finishes
// the row's sum for all, which costs a row more time than the others save, but
// lets more rows through.
template <typename T, bool kAdd, bool kMany>
__global__ void __launch_bounds__(256, resident(256, 6)) norm_pairs_kernel(const NormParams p) {
  constexpr int N = kVec<T>, kApart = 32 * N;
  using V = Vec<T, N>;
  const int64_t row = blockIdx.x;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int first = (warp * 64 + lane) * N;
  const T* x = static_cast<const T*>(p.x) + row * p.x_stride + first;
  T* residual = static_cast<T*>(p.residual) + (kAdd ? row * p.residual_stride + first : 0);
  const T* weight = static_cast<const T*>(p.weight) + first;
  T* out = static_cast<T*>(p.out) + row * p.out_stride + first;
  __shared__ float partial[16], shared_rstd;
  if (threadIdx.x < 16 && threadIdx.x >= blockDim.x / 16) partial[threadIdx.x] = 0.f;

  begin_dependent_launch();

  V held[2], added[2], gain[2];
#pragma unroll
  for (int j = 0; j < 2; ++j) held[j] = load<true, N>(x, j * kApart, 0);
  if constexpr (kAdd) {
#pragma unroll
    for (int j = 0; j < 2; ++j) added[j] = load<true, N>(static_cast<const T*>(residual), j * kApart, 0);
  }
#pragma unroll
  for (int j = 0; j < 2; ++j) gain[j] = load<true, N>(weight, j * kApart, 0);
  if constexpr (kAdd) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int i = 0; i < N; ++i) held[j].v[i] = from_float<T>(to_float(held[j].v[i]) + to_float(added[j].v[i]));
      store<true, N>(residual, j * kApart, 0, held[j]);
    }
  }
  float sum[2] = {0.f, 0.f};
#pragma unroll
  for (int j = 0; j < 2; ++j) {
#pragma unroll
    for (int i = 0; i < N; ++i) sum[j] = fmaf(to_float(held[j].v[i]), to_float(held[j].v[i]), sum[j]);
  }
  int j;
  const float slice = held_sums(sum, &j);
  if (lane % 16 == 0) partial[2 * warp + j] = slice;
  __syncthreads();
  // The order of slice_sum; shuffles need fewer registers than its vectors.
  float rstd;
  if (!kMany || warp == 0) rstd = rsqrtf(fmaf(lane_sum<16>(partial[lane % 16]), p.inverse_cols, p.eps));
  if constexpr (kMany) {
    if (threadIdx.x == 0) shared_rstd = rstd;
    __syncthreads();
    rstd = shared_rstd;
  }
#pragma unroll
  for (int j = 0; j < 2; ++j) {
#pragma unroll
    for (int i = 0; i < N; ++i)
      held[j].v[i] = from_float<T>(scale(to_float(held[j].v[i]), rstd, to_float(gain[j].v[i]) + p.weight_offset));
    store<true, N>(out, j * kApart, 0, held[j]);
  }
}

// True where the kernel can take the rows and was the fastest on an H200. A
// residual doubles the registers and the traffic, which many rows feel; of short
// rows a block of this kind holds too little.
template <typename T, bool kAdd>
bool use_pairs(const NormParams& p, int slices, const Device& device) {
  if (slices < 2 || slices > 16 || p.cols % (64 * kVec<T>) != 0) return false;
  if (!kAdd && slices >= 6) return true;
  const int64_t rows_per_multiprocessor = kAdd ? 2 : slices == 4 ? 32 : 4;
  return p.rows <= device.sms * rows_per_multiprocessor;
}

template <typename T, bool kAdd>
int launch_pairs(const NormParams& p, int slices, void* stream, const Device& device) {
  const dim3 rows(unsigned(p.rows)), threads(slices * 16);
  if constexpr (!kAdd) {
    if (p.rows >= 4 * int64_t(device.sms)) return launch(norm_pairs_kernel<T, false, true>, rows, threads, 0, stream, device, p);
  }
  return launch(norm_pairs_kernel<T, kAdd, false>, rows, threads, 0, stream, device, p);
}

}  // namespace
}  // namespace thox_edge_ops_cuda
