// SiLU and tanh-GELU gates: out = act(gate) * up, computed in fp32 and rounded
// once. The grid is flat over a row's vectors, so one token of a wide model
// already spreads over several multiprocessors.

#include "launch.cuh"
#include "vec.cuh"

namespace thox_edge_ops_cuda {
namespace {

constexpr int kThreads = 128;

// A launch takes at most this many columns, so that 32 bits index them.
constexpr int64_t kMaxCols = int64_t(1) << 30;

struct GateParams : GateArgs {
  int64_t up;  // from a gate to its factor
};

// 1 / (1 + 2^x) from the hardware's ex2 and rcp, whose errors are at most 2^-22
// and 2^-23 (PTX ISA). What they flush to zero is lost in the sum anyway, or is
// the limit: beyond 2^126 the result is 0.
__device__ __forceinline__ float inverse_of_one_plus_exp2(float x) {
  float e, r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1.f + e));
  return r;
}

// A large negative x yields -0, the limit. Infinities and NaN pass through as
// in the eager formula.
template <Act kAct>
__device__ __forceinline__ float activate(float x) {
  constexpr float kLog2E = 1.4426950408889634f;
  if constexpr (kAct == kSilu) {
    return x * inverse_of_one_plus_exp2(-kLog2E * x);
  } else {
    // 0.5 (1 + tanh(y)) = 1 / (1 + e^-2y): one exponential instead of a tanh,
    // with y = sqrt(2 / pi) (x + 0.044715 x^3).
    constexpr float kLinear = -2.f * 0.7978845608028654f * kLog2E;
    return x * inverse_of_one_plus_exp2(x * fmaf(x * x, 0.044715f * kLinear, kLinear));
  }
}

template <typename T, Act kAct, bool kAligned, int kUnroll>
__global__ void __launch_bounds__(kThreads) gate_kernel(const GateParams p) {
  constexpr int N = kVec<T>;
  using V = Vec<T, N>;
  const int cols = int(p.cols);
  const int first = (blockIdx.x * kUnroll * kThreads + threadIdx.x) * N;

  begin_dependent_launch();

  for (int64_t row = blockIdx.y; row < p.rows; row += gridDim.y) {
    const T* gate = static_cast<const T*>(p.x) + row * p.x_stride;
    const T* up = gate + p.up;
    T* out = static_cast<T*>(p.out) + row * p.out_stride;
    V g[kUnroll], u[kUnroll];
#pragma unroll
    for (int j = 0; j < kUnroll; ++j) {
      const int c = first + j * kThreads * N;
      if (c < cols) {
        g[j] = load<kAligned, N>(gate, c, cols);
        u[j] = load<kAligned, N>(up, c, cols);
      }
    }
#pragma unroll
    for (int j = 0; j < kUnroll; ++j) {
      const int c = first + j * kThreads * N;
      if (c >= cols) continue;
#pragma unroll
      for (int i = 0; i < N; ++i) g[j].v[i] = from_float<T>(activate<kAct>(to_float(g[j].v[i])) * to_float(u[j].v[i]));
      store<kAligned, N>(out, c, cols, g[j]);
    }
  }
}

template <typename T, Act kAct, bool kAligned>
int launch_gate(const GateParams& p, void* stream, const Device& device) {
  const int64_t vecs = div_up(p.cols, kVec<T>);
  const unsigned rows = unsigned(p.rows < 65535 ? p.rows : 65535);
  // Where the machine is full anyway, two vectors per thread keep more bytes in flight.
  const bool full = div_up(vecs, kThreads) * p.rows >= int64_t(device.sms) * 32;
  if (full && vecs > kThreads) {
    const dim3 grid(unsigned(div_up(vecs, 2 * kThreads)), rows);
    return launch(gate_kernel<T, kAct, kAligned, 2>, grid, dim3(kThreads), 0, stream, device, p);
  }
  const dim3 grid(unsigned(div_up(vecs, kThreads)), rows);
  return launch(gate_kernel<T, kAct, kAligned, 1>, grid, dim3(kThreads), 0, stream, device, p);
}

template <typename T, Act kAct>
int gate(const GateArgs& args, void* stream) {
  constexpr int N = kVec<T>;
  Device device;
  if (int err = current_device(&device)) return err;
  GateParams p;
  static_cast<GateArgs&>(p) = args;
  p.up = args.cols;
  const bool aligned = p.cols % N == 0 && aligned16(p.x) && aligned16(p.out) && stride16(p.x_stride, N) &&
                       stride16(p.out_stride, N);
  for (int64_t left = args.cols; left > 0; left -= kMaxCols) {
    p.cols = left < kMaxCols ? left : kMaxCols;
    const int err =
        aligned ? launch_gate<T, kAct, true>(p, stream, device) : launch_gate<T, kAct, false>(p, stream, device);
    if (err) return err;
    p.x = static_cast<const T*>(p.x) + kMaxCols;
    p.out = static_cast<T*>(p.out) + kMaxCols;
  }
  return cudaSuccess;
}

template <typename T>
int gate(const GateArgs& p, Act act, void* stream) {
  return act == kSilu ? gate<T, kSilu>(p, stream) : gate<T, kGeluTanh>(p, stream);
}

}  // namespace

int act_and_mul(const GateArgs& args, Act act, DType dtype, void* stream) {
  if (args.rows == 0 || args.cols == 0) return cudaSuccess;
  switch (dtype) {
    case kFloat32: return gate<float>(args, act, stream);
    case kFloat16: return gate<__half>(args, act, stream);
    case kBFloat16: return gate<__nv_bfloat16>(args, act, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace thox_edge_ops_cuda
