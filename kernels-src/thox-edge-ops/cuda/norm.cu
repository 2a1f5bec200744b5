// RMSNorm and fused residual-add RMSNorm.
//
// One row belongs to one group of warps. A thread holds its part of the row in
// registers between the sum of squares and the output, so each input element
// is read once and each output written once. The assignment of elements to
// threads depends on the row's length and dtype only, never on the number of
// rows, the strides or the alignment: a row's result is the same bits in every
// batch.

#include "launch.cuh"
#include "vec.cuh"

namespace thox_edge_ops_cuda {
namespace {

// Where the rows are wider than this many vectors the second pass reads the
// row again instead of holding it.
constexpr int kMaxHeldVecs = 4096;
constexpr int kMaxWarps = 32;

// Adds up a row's partial sums over its warps in a fixed order.
__device__ __forceinline__ float row_sum(float v, int warps_per_row) {
  v = lane_sum<32>(v);
  if (warps_per_row == 1) return v;
  __shared__ float partial[kMaxWarps];
  const int first = threadIdx.y * warps_per_row;
  if (threadIdx.x % 32 == 0) partial[first + threadIdx.x / 32] = v;
  __syncthreads();
  const int lane = threadIdx.x % 32;
  return lane_sum<32>(lane < warps_per_row ? partial[first + lane] : 0.f);
}

// kHeld: vectors of the row per thread, 0 for rows that are read twice.
template <typename T, int kHeld, bool kAligned, bool kAdd>
__global__ void __launch_bounds__(512) norm_kernel(const NormArgs p) {
  constexpr int N = kVec<T>;
  constexpr int kSlots = kHeld > 0 ? kHeld : 1;
  using V = Vec<T, N>;
  const int64_t row = int64_t(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool live = row < p.rows;
  const int cols = int(p.cols);
  const int vecs = (cols + N - 1) / N;
  const T* x = static_cast<const T*>(p.x) + (live ? row * p.x_stride : 0);
  T* residual = static_cast<T*>(p.residual) + (kAdd && live ? row * p.residual_stride : 0);
  T* out = static_cast<T*>(p.out) + (live ? row * p.out_stride : 0);
  const T* weight = static_cast<const T*>(p.weight);
  const int rounds = kHeld > 0 ? kHeld : (vecs + blockDim.x - 1) / blockDim.x;

  begin_dependent_launch();

  // Eight vectors of the row and as many of the weight would not fit the
  // register file, so the widest rows read their weight late.
  constexpr bool kGainHeld = kHeld > 0 && kHeld < 8;
  V held[kSlots], gain[kGainHeld ? kSlots : 1];
  float sum = 0.f;
  if constexpr (kHeld > 0) {  // all loads are in flight before the first use
#pragma unroll
    for (int j = 0; j < kSlots; ++j) {
      const int v = threadIdx.x + j * blockDim.x;
      if (live && v < vecs) held[j] = load<kAligned, N>(x, v * N, cols);
    }
    V added[kAdd ? kSlots : 1];
    if constexpr (kAdd) {
#pragma unroll
      for (int j = 0; j < kSlots; ++j) {
        const int v = threadIdx.x + j * blockDim.x;
        if (live && v < vecs) added[j] = load<kAligned, N>(static_cast<const T*>(residual), v * N, cols);
      }
    }
    if constexpr (kGainHeld) {
#pragma unroll
      for (int j = 0; j < kSlots; ++j) {
        const int v = threadIdx.x + j * blockDim.x;
        if (live && v < vecs) gain[j] = load<kAligned, N>(weight, v * N, cols);
      }
    }
#pragma unroll
    for (int j = 0; j < kSlots; ++j) {
      const int v = threadIdx.x + j * blockDim.x;
      if (!(live && v < vecs)) continue;
      if constexpr (kAdd) {
#pragma unroll
        for (int i = 0; i < N; ++i)
          held[j].v[i] = from_float<T>(to_float(held[j].v[i]) + to_float(added[j].v[i]));
        store<kAligned, N>(residual, v * N, cols, held[j]);
      }
#pragma unroll
      for (int i = 0; i < N; ++i) sum = fmaf(to_float(held[j].v[i]), to_float(held[j].v[i]), sum);
    }
  } else {
    for (int j = 0; j < rounds; ++j) {
      const int v = threadIdx.x + j * blockDim.x;
      if (!(live && v < vecs)) continue;
      V r = load<kAligned, N>(x, v * N, cols);
      if constexpr (kAdd) {
        const V a = load<kAligned, N>(static_cast<const T*>(residual), v * N, cols);
#pragma unroll
        for (int i = 0; i < N; ++i) r.v[i] = from_float<T>(to_float(r.v[i]) + to_float(a.v[i]));
        store<kAligned, N>(residual, v * N, cols, r);
      }
#pragma unroll
      for (int i = 0; i < N; ++i) sum = fmaf(to_float(r.v[i]), to_float(r.v[i]), sum);
    }
  }

  const float mean = row_sum(sum, blockDim.x / 32) / float(cols);
  const float rstd = rsqrtf(mean + p.eps);

  if constexpr (kHeld > 0) {
#pragma unroll
    for (int j = 0; j < kSlots; ++j) {
      const int v = threadIdx.x + j * blockDim.x;
      if (!(live && v < vecs)) continue;
      const int g = kGainHeld ? j : 0;
      if constexpr (!kGainHeld) gain[0] = load<kAligned, N>(weight, v * N, cols);
#pragma unroll
      for (int i = 0; i < N; ++i)
        held[j].v[i] = from_float<T>(scale(to_float(held[j].v[i]), rstd, to_float(gain[g].v[i]) + p.weight_offset));
      store<kAligned, N>(out, v * N, cols, held[j]);
    }
  } else {
    const T* source = kAdd ? residual : x;  // a thread reads back only what it wrote itself
    for (int j = 0; j < rounds; ++j) {
      const int v = threadIdx.x + j * blockDim.x;
      if (!(live && v < vecs)) continue;
      V r = load<kAligned, N>(source, v * N, cols);
      const V g = load<kAligned, N>(weight, v * N, cols);
#pragma unroll
      for (int i = 0; i < N; ++i)
        r.v[i] = from_float<T>(scale(to_float(r.v[i]), rstd, to_float(g.v[i]) + p.weight_offset));
      store<kAligned, N>(out, v * N, cols, r);
    }
  }
}

// The shape of a row's thread group, from the row's length alone.
struct Shape {
  int held;     // vectors per thread, 0 = read twice
  int threads;  // per row
};

Shape row_shape(int vecs) {
  auto warps = [](int n) { return int(div_up(n, 32)) * 32; };
  if (vecs <= 64) return {vecs <= 32 ? 1 : 2, 32};  // as the prologue: one warp per head
  if (vecs <= 512) return {1, warps(vecs)};
  if (vecs <= 1024) return {2, warps(int(div_up(vecs, 2)))};
  if (vecs <= 2048) return {4, warps(int(div_up(vecs, 4)))};
  if (vecs <= kMaxHeldVecs) return {8, warps(int(div_up(vecs, 8)))};
  return {0, 512};
}

template <typename T, int kHeld, bool kAligned>
int launch_norm(const NormArgs& p, int threads, void* stream, const Device& device) {
  // Short rows share a block of four warps.
  const int rows_per_block = threads >= 128 || p.rows == 1 ? 1 : 128 / threads;
  const dim3 block(threads, rows_per_block);
  const dim3 grid(unsigned(div_up(p.rows, rows_per_block)));
  auto kernel = p.residual ? norm_kernel<T, kHeld, kAligned, true> : norm_kernel<T, kHeld, kAligned, false>;
  return launch(kernel, grid, block, 0, stream, device, p);
}

template <typename T>
int norm(const NormArgs& p, void* stream) {
  constexpr int N = kVec<T>;
  Device device;
  if (int err = current_device(&device)) return err;
  if (p.rows > 0x7fffffffLL || p.cols > 0x7fffffffLL - 65536) return cudaErrorInvalidValue;
  const bool aligned = p.cols % N == 0 && aligned16(p.x) && aligned16(p.out) && aligned16(p.weight) &&
                       aligned16(p.residual) && stride16(p.x_stride, N) && stride16(p.out_stride, N) &&
                       stride16(p.residual_stride, N);
  const Shape shape = row_shape(int(div_up(p.cols, N)));
  switch (shape.held * 2 + aligned) {
    case 0: return launch_norm<T, 0, false>(p, shape.threads, stream, device);
    case 1: return launch_norm<T, 0, true>(p, shape.threads, stream, device);
    case 2: return launch_norm<T, 1, false>(p, shape.threads, stream, device);
    case 3: return launch_norm<T, 1, true>(p, shape.threads, stream, device);
    case 4: return launch_norm<T, 2, false>(p, shape.threads, stream, device);
    case 5: return launch_norm<T, 2, true>(p, shape.threads, stream, device);
    case 8: return launch_norm<T, 4, false>(p, shape.threads, stream, device);
    case 9: return launch_norm<T, 4, true>(p, shape.threads, stream, device);
    case 16: return launch_norm<T, 8, false>(p, shape.threads, stream, device);
    case 17: return launch_norm<T, 8, true>(p, shape.threads, stream, device);
  }
  return cudaErrorInvalidValue;
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
