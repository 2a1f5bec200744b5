// The norms of hundreds of aligned rows and more, where bandwidth counts.
#pragma once

#include "norm.cuh"

namespace thox_edge_ops_cuda {
namespace {

// Many aligned rows of at least four warps each, one row per block. Here it
// counts how many rows a multiprocessor holds at a time, so sums are made a vector
// at a time, and the weight is read late, from the first level cache.
template <typename T, int kHeld, bool kAdd, int kThreads, int kBlocks>
__global__ void __launch_bounds__(kThreads, resident(kThreads, kBlocks)) norm_many_kernel(const NormParams p) {
  constexpr int N = kVec<T>;
  using V = Vec<T, N>;
  const int64_t row = blockIdx.x;
  const int cols = int(p.cols);
  const int vecs = cols / N;
  const int warps = blockDim.x / 32, slices = warps * kHeld;
  const T* x = static_cast<const T*>(p.x) + row * p.x_stride;
  T* residual = static_cast<T*>(p.residual) + (kAdd ? row * p.residual_stride : 0);
  T* out = static_cast<T*>(p.out) + row * p.out_stride;
  __shared__ __align__(16) float partial[kMaxSlices];
  for (int s = slices + threadIdx.x; s < partials(slices); s += blockDim.x) partial[s] = 0.f;

  begin_dependent_launch();

  V held[kHeld];
  if constexpr (!kAdd) {
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      const int v = threadIdx.x + j * blockDim.x;
      if (v < vecs) held[j] = load<true, N>(x, v * N, cols);
    }
  }
  float sum[kHeld];
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    const int v = threadIdx.x + j * blockDim.x;
    sum[j] = 0.f;
    if (v < vecs) {
      if constexpr (kAdd) {
        held[j] = load<true, N>(x, v * N, cols);
        const V added = load<true, N>(static_cast<const T*>(residual), v * N, cols);
#pragma unroll
        for (int i = 0; i < N; ++i) held[j].v[i] = from_float<T>(to_float(held[j].v[i]) + to_float(added.v[i]));
        store<true, N>(residual, v * N, cols, held[j]);
      }
#pragma unroll
      for (int i = 0; i < N; ++i) sum[j] = fmaf(to_float(held[j].v[i]), to_float(held[j].v[i]), sum[j]);
    }
  }
  int j;
  const float slice = held_sums(sum, &j);
  if (threadIdx.x % (32 / kHeld) == 0) partial[j * warps + threadIdx.x / 32] = slice;
  __syncthreads();
  const float rstd = rsqrtf(fmaf(slice_sum(partial, slices), p.inverse_cols, p.eps));
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    const int v = threadIdx.x + j * blockDim.x;
    if (v >= vecs) continue;
    const V gain = load<true, N>(static_cast<const T*>(p.weight), v * N, cols);
#pragma unroll
    for (int i = 0; i < N; ++i)
      held[j].v[i] = from_float<T>(scale(to_float(held[j].v[i]), rstd, to_float(gain.v[i]) + p.weight_offset));
    store<true, N>(out, v * N, cols, held[j]);
  }
}

// RMSNorm of many rows of up to 16 slices: a block takes row after row, and the
// next row's elements are on their way while this row is summed and written.
// One row ahead with as many blocks as its registers allow beat two and three
// rows ahead, and no row ahead, on an H200.
template <typename T, int kHeld, int kThreads, int kBlocks>
__global__ void __launch_bounds__(kThreads, resident(kThreads, kBlocks)) norm_rows_kernel(const NormParams p) {
  constexpr int N = kVec<T>;
  using V = Vec<T, N>;
  const int first = threadIdx.x * N, apart = blockDim.x * N;
  const int left = int(p.cols) - first;  // elements of a row from this thread's first one on
  const int warps = blockDim.x / 32;
  const int64_t step = gridDim.x;
  int64_t row = blockIdx.x;
  const T* x = static_cast<const T*>(p.x) + row * p.x_stride + first;
  T* out = static_cast<T*>(p.out) + row * p.out_stride + first;
  const T* weight = static_cast<const T*>(p.weight) + first;
  const int64_t x_step = step * p.x_stride, out_step = step * p.out_stride;
  __shared__ __align__(16) float partial[2][16];  // a warp may be a row ahead of a slower one, never two
  if (threadIdx.x < 32) partial[threadIdx.x / 16][threadIdx.x % 16] = 0.f;
  __syncthreads();

  begin_dependent_launch();

  V gain[kHeld], held[kHeld], next[kHeld];
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    if (j * apart >= left || row >= p.rows) continue;
    held[j] = load<true, N>(x, j * apart, 0);
    gain[j] = load<true, N>(weight, j * apart, 0);
  }
  for (int turn = 0; row < p.rows; row += step, turn ^= 1) {
    x += x_step;
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      if (j * apart < left && row + step < p.rows) next[j] = load<true, N>(x, j * apart, 0);
    }
    float sum[kHeld];
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      sum[j] = 0.f;
      if (j * apart < left) {
#pragma unroll
        for (int i = 0; i < N; ++i) sum[j] = fmaf(to_float(held[j].v[i]), to_float(held[j].v[i]), sum[j]);
      }
    }
    int j;
    const float slice = held_sums(sum, &j);
    if (threadIdx.x % (32 / kHeld) == 0) partial[turn][j * warps + threadIdx.x / 32] = slice;
    __syncthreads();
    const float rstd = rsqrtf(fmaf(slice_sum(partial[turn], 16), p.inverse_cols, p.eps));
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      if (j * apart < left) {
#pragma unroll
        for (int i = 0; i < N; ++i)
          held[j].v[i] =
              from_float<T>(scale(to_float(held[j].v[i]), rstd, to_float(gain[j].v[i]) + p.weight_offset));
        store<true, N>(out, j * apart, 0, held[j]);
      }
      held[j] = next[j];
    }
    out += out_step;
  }
}

template <typename T, int kHeld, bool kAdd, int kThreads, int kBlocks>
int launch_many(const NormParams& p, int slices, void* stream, const Device& device) {
  return launch(norm_many_kernel<T, kHeld, kAdd, kThreads, kBlocks>, dim3(unsigned(p.rows)),
                dim3(unsigned(div_up(slices, kHeld)) * 32), 0, stream, device, p);
}

// Hundreds of aligned rows and more: bandwidth counts, not the time of one row.
// False where launch_norm is as good. The choices are what was fastest on an
// H200; bounds of registers follow from them.
template <typename T, bool kAdd>
bool launch_many(const NormParams& p, int slices, void* stream, const Device& device, int* err) {
  if (p.rows < 4 * int64_t(device.sms) || slices < 4 || slices > 64) return false;
  if constexpr (!kAdd) {
    if (slices <= 12) {  // with so little to write, reading a row ahead pays
      const int held = slices <= 8 ? 1 : 2;
      const int warps = int(div_up(slices, held));
      const int room = held == 1 ? 48 : 32;  // warps, by the kernels' bounds
      const int64_t resident = int64_t(device.sms) * ((device.threads / 32 < room ? device.threads / 32 : room) / warps);
      if (p.rows >= 4 * resident) {
        auto kernel = held == 1 ? norm_rows_kernel<T, 1, 512, 3> : norm_rows_kernel<T, 2, 256, 4>;
        *err = launch(kernel, dim3(unsigned(resident)), dim3(warps * 32), 0, stream, device, p);
        return true;
      }
    }
  }
  if (slices <= 12) {
    *err = launch_many<T, 1, kAdd, 384, kAdd && sizeof(T) == 2 ? 5 : 4>(p, slices, stream, device);
    return true;
  }
  if constexpr (kAdd) {
    if (slices <= 32) {
      *err = launch_many<T, 2, kAdd, 512, 3>(p, slices, stream, device);
      return true;
    }
  }
  *err = launch_many<T, 4, kAdd, 512, 2>(p, slices, stream, device);
  return true;
}

}  // namespace
}  // namespace thox_edge_ops_cuda
