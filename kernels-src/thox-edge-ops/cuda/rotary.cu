// Rotary embedding in place on q and k with one launch.
//
// A thread owns one 16-byte vector of each half of a head (rotate-half) or one
// vector of pairs (interleaved). Heads of q and k share one index space.

#include "launch.cuh"
#include "rotary.cuh"

namespace thox_edge_ops_cuda {
namespace {

constexpr int kThreads = 256;

// N: elements per access, 1 where alignment or the rotary size forbid vectors.
template <typename T, typename C, int N, bool kInterleaved>
__global__ void __launch_bounds__(kThreads) rotary_kernel(const RotaryArgs p) {
  constexpr bool kAligned = N > 1;
  constexpr int kPairs = kInterleaved && N > 1 ? N / 2 : N;
  const int half = p.rotary_dim / 2;
  const int lanes = half / kPairs;  // threads per head
  const int work = lanes * (p.q_heads + p.k_heads);
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= work) return;
  const int head = at / lanes;
  const int pair = (at - head * lanes) * kPairs;

  begin_dependent_launch();

  for (int64_t token = blockIdx.y; token < p.tokens; token += gridDim.y) {
    const int64_t position = position_of(p, token);
    T* row = head_row<T>(p, token, head);
    if constexpr (kInterleaved) {
      if constexpr (N > 1) {
        Vec<T, N> x = load<kAligned, N>(static_cast<const T*>(row), 2 * pair, 2 * half);
        if (uint64_t(position) >= uint64_t(p.cache_rows)) continue;
        const C* cache = static_cast<const C*>(p.cos_sin_cache) + position * p.cache_stride;
        float c[kPairs], s[kPairs];
        angles<kAligned, kPairs>(cache, pair, c);
        angles<kAligned, kPairs>(cache + half, pair, s);
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
          const float a = to_float(x.v[2 * i]), b = to_float(x.v[2 * i + 1]);
          x.v[2 * i] = from_float<T>(rotate_first(a, b, c[i], s[i]));
          x.v[2 * i + 1] = from_float<T>(rotate_second(a, b, c[i], s[i]));
        }
        store<kAligned, N>(row, 2 * pair, 2 * half, x);
      } else {
        if (uint64_t(position) >= uint64_t(p.cache_rows)) continue;
        const C* cache = static_cast<const C*>(p.cos_sin_cache) + position * p.cache_stride;
        const float c = to_float(cache[pair]), s = to_float(cache[half + pair]);
        const float a = to_float(row[2 * pair]), b = to_float(row[2 * pair + 1]);
        row[2 * pair] = from_float<T>(rotate_first(a, b, c, s));
        row[2 * pair + 1] = from_float<T>(rotate_second(a, b, c, s));
      }
    } else {
      Vec<T, N> x = load<kAligned || N == 1, N>(static_cast<const T*>(row), pair, half);
      Vec<T, N> y = load<kAligned || N == 1, N>(static_cast<const T*>(row + half), pair, half);
      if (uint64_t(position) >= uint64_t(p.cache_rows)) continue;
      const C* cache = static_cast<const C*>(p.cos_sin_cache) + position * p.cache_stride;
      float c[N], s[N];
      angles<true, N>(cache, pair, c);
      angles<true, N>(cache + half, pair, s);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float a = to_float(x.v[i]), b = to_float(y.v[i]);
        x.v[i] = from_float<T>(rotate_first(a, b, c[i], s[i]));
        y.v[i] = from_float<T>(rotate_second(a, b, c[i], s[i]));
      }
      store<true, N>(row, pair, half, x);
      store<true, N>(row + half, pair, half, y);
    }
  }
}

template <typename T, typename C, int N>
int launch_rotary(const RotaryArgs& p, void* stream, const Device& device) {
  const int pairs = p.interleaved && N > 1 ? N / 2 : N;
  const int64_t work = int64_t(p.rotary_dim / 2 / pairs) * (p.q_heads + p.k_heads);
  if (work > 0x7fffffffLL - kThreads) return cudaErrorInvalidValue;
  // A single token spreads over several multiprocessors in blocks of one or two warps.
  const int threads = p.tokens >= device.sms ? kThreads : 64;
  const dim3 grid(unsigned(div_up(work, threads)), unsigned(p.tokens < 65535 ? p.tokens : 65535));
  auto kernel = p.interleaved ? rotary_kernel<T, C, N, true> : rotary_kernel<T, C, N, false>;
  return launch(kernel, grid, dim3(threads), 0, stream, device, p);
}

template <typename T, typename C>
int rotary(const RotaryArgs& p, void* stream) {
  Device device;
  if (int err = current_device(&device)) return err;
  return rotary_aligned<T, C>(p) ? launch_rotary<T, C, kVec<T>>(p, stream, device)
                                 : launch_rotary<T, C, 1>(p, stream, device);
}

template <typename T>
int rotary(const RotaryArgs& p, void* stream) {
  return p.cache_is_float32 ? rotary<T, float>(p, stream) : rotary<T, T>(p, stream);
}

}  // namespace

int rotary_embedding(const RotaryArgs& args, DType dtype, void* stream) {
  if (args.tokens == 0 || args.q_heads + args.k_heads == 0 || args.rotary_dim == 0) return cudaSuccess;
  switch (dtype) {
    case kFloat32: return rotary<float, float>(args, stream);
    case kFloat16: return rotary<__half>(args, stream);
    case kBFloat16: return rotary<__nv_bfloat16>(args, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace thox_edge_ops_cuda
