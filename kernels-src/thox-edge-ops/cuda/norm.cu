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

#include "launch.cuh"
#include "vec.cuh"

namespace thox_edge_ops_cuda {
namespace {

struct NormParams : NormArgs {
  float inverse_cols;
};

constexpr int kMaxSlices = 128;  // beyond, a row is read twice

// The sum of a row's slices, the same in every thread. partial[] holds one sum
// for each slice.
__device__ __forceinline__ float slice_sum(const float* partial, int slices) {
  const int lane = threadIdx.x % 32;
  float v = lane < slices ? partial[lane] : 0.f;
  for (int s = lane + 32; s < slices; s += 32) v += partial[s];
  return lane_sum<32>(v);
}

// kHeld: slices per warp. kThreads and kBlocks bound the registers.
template <typename T, int kHeld, bool kAligned, bool kAdd, int kThreads, int kBlocks>
__global__ void __launch_bounds__(kThreads, resident(kThreads, kBlocks)) norm_kernel(const NormParams p) {
  constexpr int N = kVec<T>;
  using V = Vec<T, N>;
  // Eight vectors of the row and as many of the weight would not fit the
  // register file, so the widest rows read their weight late.
  constexpr bool kGainHeld = kHeld < 8;
  const int64_t row = int64_t(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool live = row < p.rows;
  const int cols = int(p.cols);
  const int vecs = live ? (cols + N - 1) / N : 0;
  const T* x = static_cast<const T*>(p.x) + row * p.x_stride;
  T* residual = static_cast<T*>(p.residual) + (kAdd ? row * p.residual_stride : 0);
  T* out = static_cast<T*>(p.out) + row * p.out_stride;
  const T* weight = static_cast<const T*>(p.weight);

  begin_dependent_launch();

  V held[kHeld], added[kAdd ? kHeld : 1], gain[kGainHeld ? kHeld : 1];
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    const int v = threadIdx.x + j * blockDim.x;
    if (v < vecs) held[j] = load<kAligned, N>(x, v * N, cols);
  }
  if constexpr (kAdd) {
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      const int v = threadIdx.x + j * blockDim.x;
      if (v < vecs) added[j] = load<kAligned, N>(static_cast<const T*>(residual), v * N, cols);
    }
  }
  if constexpr (kGainHeld) {
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
#pragma unroll
        for (int i = 0; i < N; ++i)
          held[j].v[i] = from_float<T>(to_float(held[j].v[i]) + to_float(added[j].v[i]));
        store<kAligned, N>(residual, v * N, cols, held[j]);
      }
#pragma unroll
      for (int i = 0; i < N; ++i) sum[j] = fmaf(to_float(held[j].v[i]), to_float(held[j].v[i]), sum[j]);
    }
    sum[j] = lane_sum<32>(sum[j]);
  }

  // Slice s = j * warps + warp. Up to four slices in one warp need no barrier;
  // the tree is the one that slice_sum's butterfly makes of them.
  float total;
  const int warps = blockDim.x / 32;
  if (kHeld <= 4 && warps == 1) {
    total = sum[0];
    if constexpr (kHeld == 2) total = sum[0] + sum[1];
    if constexpr (kHeld == 4) total = (sum[0] + sum[2]) + (sum[1] + sum[3]);
  } else {
    extern __shared__ float partial[];
    float* mine = partial + threadIdx.y * warps * kHeld;
    if (threadIdx.x % 32 == 0) {
#pragma unroll
      for (int j = 0; j < kHeld; ++j) mine[j * warps + threadIdx.x / 32] = sum[j];
    }
    __syncthreads();
    total = slice_sum(mine, warps * kHeld);
  }
  const float rstd = rsqrtf(fmaf(total, p.inverse_cols, p.eps));

#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    const int v = threadIdx.x + j * blockDim.x;
    if (v >= vecs) continue;
    const int g = kGainHeld ? j : 0;
    if constexpr (!kGainHeld) gain[0] = load<kAligned, N>(weight, v * N, cols);
#pragma unroll
    for (int i = 0; i < N; ++i)
      held[j].v[i] = from_float<T>(scale(to_float(held[j].v[i]), rstd, to_float(gain[g].v[i]) + p.weight_offset));
    store<kAligned, N>(out, v * N, cols, held[j]);
  }
}

// Many rows of up to 16 slices, one slice per warp: a block takes row after
// row, and the next row's elements are on their way while this row is summed
// and written. One row ahead with as many blocks as its registers allow beat
// two and three rows ahead, and no row ahead, on an H200.
template <typename T, bool kAdd, int kBlocks>
__global__ void __launch_bounds__(512, resident(512, kBlocks)) norm_rows_kernel(const NormParams p) {
  constexpr int N = kVec<T>;
  using V = Vec<T, N>;
  const int first = threadIdx.x * N;
  const bool mine = first < int(p.cols);
  const int warps = blockDim.x / 32;
  const int64_t step = gridDim.x;
  int64_t row = blockIdx.x;
  const T* x = static_cast<const T*>(p.x) + row * p.x_stride + first;
  T* residual = static_cast<T*>(p.residual) + (kAdd ? row * p.residual_stride + first : 0);
  T* out = static_cast<T*>(p.out) + row * p.out_stride + first;
  const int64_t x_step = step * p.x_stride, residual_step = step * p.residual_stride, out_step = step * p.out_stride;
  __shared__ float partial[2][16];  // a warp may be a row ahead of a slower one, never two

  begin_dependent_launch();

  V gain, held, added, next, next_added;
  if (mine && row < p.rows) {
    held = load<true, N>(x, 0, 0);
    if constexpr (kAdd) added = load<true, N>(static_cast<const T*>(residual), 0, 0);
    gain = load<true, N>(static_cast<const T*>(p.weight), first, 0);
  }
  for (int turn = 0; row < p.rows; row += step, turn ^= 1) {
    x += x_step;
    if (mine && row + step < p.rows) {
      next = load<true, N>(x, 0, 0);
      if constexpr (kAdd) next_added = load<true, N>(static_cast<const T*>(residual) + residual_step, 0, 0);
    }
    float sum = 0.f;
    if (mine) {
      if constexpr (kAdd) {
#pragma unroll
        for (int i = 0; i < N; ++i) held.v[i] = from_float<T>(to_float(held.v[i]) + to_float(added.v[i]));
        store<true, N>(residual, 0, 0, held);
      }
#pragma unroll
      for (int i = 0; i < N; ++i) sum = fmaf(to_float(held.v[i]), to_float(held.v[i]), sum);
    }
    sum = lane_sum<32>(sum);
    const int lane = threadIdx.x % 32;
    if (lane == 0) partial[turn][threadIdx.x / 32] = sum;
    __syncthreads();
    const float total = lane_sum<32>(lane < warps ? partial[turn][lane] : 0.f);
    const float rstd = rsqrtf(fmaf(total, p.inverse_cols, p.eps));
    if (mine) {
#pragma unroll
      for (int i = 0; i < N; ++i)
        held.v[i] = from_float<T>(scale(to_float(held.v[i]), rstd, to_float(gain.v[i]) + p.weight_offset));
      store<true, N>(out, 0, 0, held);
    }
    out += out_step;
    held = next;
    if constexpr (kAdd) residual += residual_step, added = next_added;
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
  __shared__ float partial[16];
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

template <typename T, int kHeld, bool kAligned, bool kAdd, int kThreads, int kBlocks>
int launch_norm(const NormParams& p, int slices, void* stream, const Device& device) {
  const int warps = int(div_up(slices, kHeld));
  // Narrow rows share a block of four warps.
  const int rows_per_block = warps >= 4 || p.rows == 1 ? 1 : 4 / warps;
  const dim3 block(warps * 32, rows_per_block);
  const dim3 grid(unsigned(div_up(p.rows, rows_per_block)));
  const size_t shared = size_t(rows_per_block) * warps * kHeld * sizeof(float);
  return launch(norm_kernel<T, kHeld, kAligned, kAdd, kThreads, kBlocks>, grid, block, shared, stream, device, p);
}

template <typename T, bool kAligned, bool kAdd>
int launch_norm(const NormParams& p, void* stream, const Device& device) {
  if (p.cols > kMaxSlices * 32 * kVec<T>) {
    return launch(wide_norm_kernel<T, kAligned, kAdd>, dim3(unsigned(p.rows)), dim3(512), 0, stream, device, p);
  }
  const int slices = int(div_up(p.cols, 32 * kVec<T>));
  // A block for each row costs too much of its start and end where there are
  // thousands of rows. Three kernels differ in the registers that they may use,
  // so in the warps that a multiprocessor of 64 Ki registers holds.
  if constexpr (kAligned) {
    if (slices >= (kAdd ? 8 : 4) && slices <= 16) {
      const int most = device.threads / 32;
      const int roomy = (kAdd ? 32 : 48) < most ? (kAdd ? 32 : 48) : most;
      // Blocks of an odd size leave more of the machine idle than fewer registers cost.
      const bool tight = !kAdd && (roomy - roomy / slices * slices) * 8 > roomy;
      const int64_t resident = int64_t(device.sms) * ((tight ? most : roomy) / slices);
      if (resident > 0 && p.rows >= 4 * resident) {
        auto kernel = norm_rows_kernel<T, kAdd, kAdd ? 2 : 3>;
        if constexpr (!kAdd) {
          if (tight) kernel = norm_rows_kernel<T, kAdd, 4>;
        }
        return launch(kernel, dim3(unsigned(resident)), dim3(slices * 32), 0, stream, device, p);
      }
    }
  }
  // One slice per warp as long as a block has warps for them: on an H200 that
  // beats fewer warps with more slices each at every size, because the phases
  // of many small blocks overlap.
  if (slices <= 16) return launch_norm<T, 1, kAligned, kAdd, 512, 4>(p, slices, stream, device);
  if (slices <= 32) return launch_norm<T, 2, kAligned, kAdd, 512, 2>(p, slices, stream, device);
  if (slices <= 64) return launch_norm<T, 4, kAligned, kAdd, 512, 1>(p, slices, stream, device);
  return launch_norm<T, 8, kAligned, kAdd, 512, 1>(p, slices, stream, device);
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
