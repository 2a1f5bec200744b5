// RMSNorm and fused residual-add RMSNorm.
//
// A row belongs to one or more warps of one block. A thread holds its part of
// the row in registers between the sum of squares and the output, so each
// input element is read once and each output written once.
//
// The order of additions is a property of the row's length and dtype alone:
// every 16-byte vector is summed on its own, the 32 vectors of a "slice" by a
// butterfly over the lanes, the slices in a fixed tree. How many warps share a
// row, and how many slices a warp holds, is then free to follow the number of
// rows, and a row still gives the same bits in every batch, at any stride and
// any alignment.

#include "norm.cuh"
#include "norm_many.cuh"
#include "norm_pairs.cuh"

namespace thox_edge_ops_cuda {
namespace {

// kHeld: slices per warp. kOneRow: a block is one row, so that the addresses of
// the rows are the same in all of its threads and take no registers of each.
template <typename T, int kHeld, bool kAligned, bool kAdd, bool kOneRow>
__global__ void __launch_bounds__(512) norm_kernel(const NormParams p) {
  // Eight vectors of the row and as many of the residual and the weight would
  // not fit the register file, so the widest rows read these where they are used.
  constexpr bool kEarly = kHeld < 8;
  constexpr int N = kVec<T>;
  using V = Vec<T, N>;
  const int64_t row = kOneRow ? blockIdx.x : int64_t(blockIdx.x) * blockDim.y + threadIdx.y;
  const int cols = int(p.cols);
  const int vecs = kOneRow || row < p.rows ? (cols + N - 1) / N : 0;
  const int warps = blockDim.x / 32, slices = warps * kHeld;
  const T* x = static_cast<const T*>(p.x) + row * p.x_stride;
  T* residual = static_cast<T*>(p.residual) + (kAdd ? row * p.residual_stride : 0);
  T* out = static_cast<T*>(p.out) + row * p.out_stride;
  const T* weight = static_cast<const T*>(p.weight);
  __shared__ __align__(16) float partial[kMaxSlices];
  float* const mine = partial + (kOneRow ? 0 : threadIdx.y * partials(slices));
  for (int s = slices + threadIdx.x; s < partials(slices); s += blockDim.x) mine[s] = 0.f;

  begin_dependent_launch();

  V held[kHeld], added[kAdd && kEarly ? kHeld : 1], gain[kEarly ? kHeld : 1];
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    const int v = threadIdx.x + j * blockDim.x;
    if (v < vecs) held[j] = load<kAligned, N>(x, v * N, cols);
  }
  if constexpr (kAdd && kEarly) {
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      const int v = threadIdx.x + j * blockDim.x;
      if (v < vecs) added[j] = load<kAligned, N>(static_cast<const T*>(residual), v * N, cols);
    }
  }
  if constexpr (kEarly) {
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      const int v = threadIdx.x + j * blockDim.x;
      if (v < vecs) gain[j] = load<kAligned, N>(weight, v * N, cols);
    }
  }

  float sum[kHeld];
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    const int v = threadIdx.x + j * blockDim.x;
    sum[j] = 0.f;
    if (v < vecs) {
      if constexpr (kAdd) {
        if constexpr (!kEarly) added[0] = load<kAligned, N>(static_cast<const T*>(residual), v * N, cols);
        const V& a = added[kEarly ? j : 0];
#pragma unroll
        for (int i = 0; i < N; ++i) held[j].v[i] = from_float<T>(to_float(held[j].v[i]) + to_float(a.v[i]));
        store<kAligned, N>(residual, v * N, cols, held[j]);
      }
#pragma unroll
      for (int i = 0; i < N; ++i) sum[j] = fmaf(to_float(held[j].v[i]), to_float(held[j].v[i]), sum[j]);
    }
    sum[j] = lane_sum<32>(sum[j]);
  }

  float total;
  if (kHeld == 1 && warps == 1) {
    total = sum[0];
  } else {
    if (threadIdx.x % 32 == 0) {
#pragma unroll
      for (int j = 0; j < kHeld; ++j) mine[j * warps + threadIdx.x / 32] = sum[j];  // slice j * warps + warp
    }
    __syncthreads();
    total = slice_sum(mine, slices);
  }
  const float rstd = rsqrtf(fmaf(total, p.inverse_cols, p.eps));

#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    const int v = threadIdx.x + j * blockDim.x;
    if (v >= vecs) continue;
    if constexpr (!kEarly) gain[0] = load<kAligned, N>(weight, v * N, cols);
    const V& g = gain[kEarly ? j : 0];
#pragma unroll
    for (int i = 0; i < N; ++i)
      held[j].v[i] = from_float<T>(scale(to_float(held[j].v[i]), rstd, to_float(g.v[i]) + p.weight_offset));
    store<kAligned, N>(out, v * N, cols, held[j]);
  }
}

// Rows too wide for the registers of one block: read twice.
template <typename T, bool kAligned, bool kAdd>
__global__ void __launch_bounds__(512) wide_norm_kernel(const NormParams p) {
  constexpr int N = kVec<T>;
  const int64_t row = blockIdx.x;
  const int64_t cols = p.cols;
  const int64_t vecs = (cols + N - 1) / N;
  const T* x = static_cast<const T*>(p.x) + row * p.x_stride;
  T* residual = static_cast<T*>(p.residual) + (kAdd ? row * p.residual_stride : 0);
  T* out = static_cast<T*>(p.out) + row * p.out_stride;
  const T* weight = static_cast<const T*>(p.weight);

  begin_dependent_launch();

  float sum = 0.f;
  for (int64_t v = threadIdx.x; v < vecs; v += blockDim.x) {
    Vec<T, N> r = load<kAligned, N>(x, v * N, cols);
    if constexpr (kAdd) {
      const Vec<T, N> a = load<kAligned, N>(static_cast<const T*>(residual), v * N, cols);
#pragma unroll
      for (int i = 0; i < N; ++i) r.v[i] = from_float<T>(to_float(r.v[i]) + to_float(a.v[i]));
      store<kAligned, N>(residual, v * N, cols, r);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) sum = fmaf(to_float(r.v[i]), to_float(r.v[i]), sum);
  }
  __shared__ __align__(16) float partial[16];
  sum = lane_sum<32>(sum);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  const float rstd = rsqrtf(fmaf(slice_sum(partial, blockDim.x / 32), p.inverse_cols, p.eps));
  const T* source = kAdd ? residual : x;  // a thread reads back only what it wrote itself
  for (int64_t v = threadIdx.x; v < vecs; v += blockDim.x) {
    Vec<T, N> r = load<kAligned, N>(source, v * N, cols);
    const Vec<T, N> g = load<kAligned, N>(weight, v * N, cols);
#pragma unroll
    for (int i = 0; i < N; ++i)
      r.v[i] = from_float<T>(scale(to_float(r.v[i]), rstd, to_float(g.v[i]) + p.weight_offset));
    store<kAligned, N>(out, v * N, cols, r);
  }
}

template <typename T, int kHeld, bool kAligned, bool kAdd>
int launch_norm(const NormParams& p, int slices, void* stream, const Device& device) {
  const int warps = int(div_up(slices, kHeld));
  if constexpr (kHeld == 1) {
    if (warps < 4 && p.rows > 1) {  // narrow rows share a block of up to four warps
      const int rows_per_block = 4 / warps;
      return launch(norm_kernel<T, kHeld, kAligned, kAdd, false>, dim3(unsigned(div_up(p.rows, rows_per_block))),
                    dim3(warps * 32, rows_per_block), 0, stream, device, p);
    }
  }
  return launch(norm_kernel<T, kHeld, kAligned, kAdd, true>, dim3(unsigned(p.rows)), dim3(warps * 32), 0, stream,
                device, p);
}

template <typename T, bool kAligned, bool kAdd>
int launch_norm(const NormParams& p, void* stream, const Device& device) {
  if (p.cols > kMaxSlices * 32 * kVec<T>) {
    return launch(wide_norm_kernel<T, kAligned, kAdd>, dim3(unsigned(p.rows)), dim3(512), 0, stream, device, p);
  }
  const int slices = int(div_up(p.cols, 32 * kVec<T>));
  if constexpr (kAligned) {
    if (use_pairs<T, kAdd>(p, slices, device)) return launch_pairs<T, kAdd>(p, slices, stream, device);
    int err;
    if (launch_many<T, kAdd>(p, slices, stream, device, &err)) return err;
  }
  // One slice per warp as long as a block has warps for them: on an H200 that
  // beats fewer warps with more slices each at every size, because the phases
  // of many small blocks overlap.
  if (slices <= 16) return launch_norm<T, 1, kAligned, kAdd>(p, slices, stream, device);
  if (slices <= 32) return launch_norm<T, 2, kAligned, kAdd>(p, slices, stream, device);
  if (slices <= 64) return launch_norm<T, 4, kAligned, kAdd>(p, slices, stream, device);
  return launch_norm<T, 8, kAligned, kAdd>(p, slices, stream, device);
}

template <typename T>
int norm(const NormArgs& args, void* stream) {
  constexpr int N = kVec<T>;
  constexpr int64_t kMaxRows = 0x7fffffff;  // of one grid
  Device device;
  if (int err = current_device(&device)) return err;
  NormParams p;
  static_cast<NormArgs&>(p) = args;
  p.inverse_cols = 1.f / float(args.cols);
  const bool aligned = p.cols % N == 0 && aligned16(p.x) && aligned16(p.out) && aligned16(p.weight) &&
                       aligned16(p.residual) && stride16(p.x_stride, N) && stride16(p.out_stride, N) &&
                       stride16(p.residual_stride, N);
  for (int64_t left = args.rows; left > 0; left -= kMaxRows) {
    p.rows = left < kMaxRows ? left : kMaxRows;
    const int err =
        aligned
            ? p.residual ? launch_norm<T, true, true>(p, stream, device) : launch_norm<T, true, false>(p, stream, device)
            : p.residual ? launch_norm<T, false, true>(p, stream, device)
                         : launch_norm<T, false, false>(p, stream, device);
    if (err) return err;
    p.x = static_cast<const T*>(p.x) + kMaxRows * p.x_stride;
    p.out = static_cast<T*>(p.out) + kMaxRows * p.out_stride;
    if (p.residual) p.residual = static_cast<T*>(p.residual) + kMaxRows * p.residual_stride;
  }
  return cudaSuccess;
}

}  // namespace

int rms_norm(const NormArgs& args, DType dtype, void* stream) {
  if (args.rows == 0 || args.cols == 0) return cudaSuccess;
  switch (dtype) {
    case kFloat32: return norm<float>(args, stream);
    case kFloat16: return norm<__half>(args, stream);
    case kBFloat16: return norm<__nv_bfloat16>(args, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace thox_edge_ops_cuda
