// Rotary embedding in place on q and k with one launch.
//
// A thread owns one 16-byte vector of each half of a head (rotate-half) or one
// vector of pairs (interleaved). Heads of q and k share one index space.

#include "launch.cuh"
#include "rotary.cuh"

namespace thox_edge_ops_cuda {
namespace {

constexpr int kThreads = 128;

// N: elements per access, 1 where alignment or the rotary size forbid vectors.
template <typename T, typename C, int N, bool kInterleaved>
__global__ void __launch_bounds__(kThreads, 12) rotary_kernel(const RotaryArgs p) {
  // One access per side of a pair; an interleaved vector holds both sides.
  constexpr bool kPacked = kInterleaved && N > 1;
  constexpr int kPairs = kPacked ? N / 2 : N;
  const int half = p.rotary_dim / 2;
  const int lanes = half / kPairs;  // threads per head
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= lanes * (p.q_heads + p.k_heads)) return;
  const int head = at / lanes;
  const int pair = (at - head * lanes) * kPairs;
  // Where the two sides of the first pair lie in a head.
  const int a_at = kInterleaved ? 2 * pair : pair;
  const int b_at = kInterleaved ? 2 * pair + 1 : pair + half;

  begin_dependent_launch();

  for (int64_t token = blockIdx.y; token < p.tokens; token += gridDim.y) {
    const int64_t position = position_of(p, token);
    T* row = head_row<T>(p, token, head);
    Vec<T, N> a = load<true, N>(static_cast<const T*>(row), a_at, 0), b;
    if constexpr (!kPacked) b = load<true, N>(static_cast<const T*>(row), b_at, 0);
    if (uint64_t(position) >= uint64_t(p.cache_rows)) continue;
    const C* cache = static_cast<const C*>(p.cos_sin_cache) + position * p.cache_stride;
    Angles<true, kPairs, C> cos, sin;
    cos.read(cache, pair);
    sin.read(cache + half, pair);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      T& x = a.v[kPacked ? 2 * i : i];
      T& y = kPacked ? a.v[2 * i + 1] : b.v[i];
      const float u = to_float(x), v = to_float(y);
      x = from_float<T>(rotate_first(u, v, cos[i], sin[i]));
      y = from_float<T>(rotate_second(u, v, cos[i], sin[i]));
    }
    store<true, N>(row, a_at, 0, a);
    if constexpr (!kPacked) store<true, N>(row, b_at, 0, b);
  }
}

// Many tokens: a block takes token after token. A token's position is read two
// turns ahead, its elements and angles one turn ahead, so neither the chain
// from position to angles nor the elements are waited for.
template <typename T, typename C, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks) rotary_tokens_kernel(const RotaryArgs p) {
  constexpr int N = kVec<T>;
  using V = Vec<T, N>;
  using A = Angles<true, N, C>;
  const int half = p.rotary_dim / 2;
  const int lanes = half / N;
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= lanes * (p.q_heads + p.k_heads)) return;
  const int head = at / lanes;
  const int pair = (at - head * lanes) * N;
  const int64_t step = gridDim.y;
  const bool is_q = head < p.q_heads;
  const int64_t stride = is_q ? p.q_token_stride : p.k_token_stride;
  int64_t token = blockIdx.y;
  T* row = head_row<T>(p, token, head) + pair;
  const C* const cache = static_cast<const C*>(p.cos_sin_cache) + pair;

  begin_dependent_launch();

  const auto inside = [&](int64_t position) { return uint64_t(position) < uint64_t(p.cache_rows); };
  int64_t position = position_of(p, token), next_position = -1;
  if (token + step < p.tokens) next_position = position_of(p, token + step);
  V a = load<true, N>(static_cast<const T*>(row), 0, 0), b = load<true, N>(static_cast<const T*>(row) + half, 0, 0);
  A cos, sin;
  if (inside(position)) {
    cos.read(cache + position * p.cache_stride, 0);
    sin.read(cache + position * p.cache_stride + half, 0);
  }
  for (; token < p.tokens; token += step) {
    V next_a, next_b;
    A next_cos, next_sin;
    int64_t later = -1;
    T* const next_row = row + step * stride;
    if (token + step < p.tokens) {
      next_a = load<true, N>(static_cast<const T*>(next_row), 0, 0);
      next_b = load<true, N>(static_cast<const T*>(next_row) + half, 0, 0);
      if (token + 2 * step < p.tokens) later = position_of(p, token + 2 * step);
      if (inside(next_position)) {
        next_cos.read(cache + next_position * p.cache_stride, 0);
        next_sin.read(cache + next_position * p.cache_stride + half, 0);
      }
    }
    if (inside(position)) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float u = to_float(a.v[i]), v = to_float(b.v[i]);
        a.v[i] = from_float<T>(rotate_first(u, v, cos[i], sin[i]));
        b.v[i] = from_float<T>(rotate_second(u, v, cos[i], sin[i]));
      }
      store<true, N>(row, 0, 0, a);
      store<true, N>(row + half, 0, 0, b);
    }
    row = next_row, a = next_a, b = next_b, cos = next_cos, sin = next_sin;
    position = next_position, next_position = later;
  }
}

template <typename T, typename C, int N>
int launch_rotary(const RotaryArgs& p, void* stream, const Device& device) {
  const int pairs = p.interleaved && N > 1 ? N / 2 : N;
  const int64_t work = int64_t(p.rotary_dim / 2 / pairs) * (p.q_heads + p.k_heads);
  if (work > 0x7fffffffLL - kThreads) return cudaErrorInvalidValue;
  if constexpr (N > 1) {
    const char* e = getenv("TR"); const int tr = e ? atoi(e) : 0; const char* f = getenv("TB"); const int per = f ? atoi(f) : 0;
    if (tr && !p.interleaved) {
      const int64_t gx = div_up(work, kThreads);
      auto go = [&](auto kernel, int blocks) {
        int64_t gy = div_up(int64_t(device.sms) * (per ? per : blocks), gx);
        if (gy > p.tokens) gy = p.tokens;
        return launch(kernel, dim3(unsigned(gx), unsigned(gy)), dim3(kThreads), 0, stream, device, p);
      };
      if (tr == 1) return go(rotary_tokens_kernel<T, C, 8>, 8);
      if (tr == 2) return go(rotary_tokens_kernel<T, C, 10>, 10);
      if (tr == 3) return go(rotary_tokens_kernel<T, C, 12>, 12);
    }
  }
  // A few tokens spread over many multiprocessors in blocks of two warps.
  const int threads = work * p.tokens < int64_t(device.sms) * 2048 ? 64 : 128;
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
