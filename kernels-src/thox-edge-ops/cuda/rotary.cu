// Rotary embedding in place on q and k with one launch.
//
// A thread owns one 16-byte vector of each half of a head (rotate-half) or one
// vector of pairs (interleaved). Heads of q and k share one index space.

#include "launch.cuh"
#include "rotary.cuh"

namespace thox_edge_ops_cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWalkers = 10;  // blocks of rotary_walk_kernel on one multiprocessor

// One access per side of a pair; an interleaved vector holds both sides.
template <int N>
__host__ __device__ constexpr int pairs_per_access(bool interleaved) {
  return interleaved && N > 1 ? N / 2 : N;
}

struct RotaryParams : RotaryArgs {
  int lanes;        // threads per head
  int lanes_shift;  // its logarithm, or -1 where it is not a power of two
};

// Turns the pairs that one thread owns of a head: `row` points at the first side
// of the first pair, the other side lies `other` elements further, `cache` points
// at the cosines, the sines lie `half` further.
template <typename T, typename C, int N, bool kInterleaved>
__device__ __forceinline__ void rotate(T* row, int other, const C* cache, int half, bool inside) {
  constexpr bool kPacked = kInterleaved && N > 1;
  constexpr int kPairs = pairs_per_access<N>(kInterleaved);
  Vec<T, N> a = load<true, N>(static_cast<const T*>(row), 0, 0), b;
  if constexpr (!kPacked) b = load<true, N>(static_cast<const T*>(row), other, 0);
  if (!inside) return;
  Angles<true, kPairs, C> cos, sin;
  cos.read(cache, 0);
  sin.read(cache + half, 0);
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    T& x = a.v[kPacked ? 2 * i : i];
    T& y = kPacked ? a.v[2 * i + 1] : b.v[i];
    const float u = to_float(x), v = to_float(y);
    x = from_float<T>(rotate_first(u, v, cos[i], sin[i]));
    y = from_float<T>(rotate_second(u, v, cos[i], sin[i]));
  }
  store<true, N>(row, 0, 0, a);
  if constexpr (!kPacked) store<true, N>(row, other, 0, b);
}

// A block row per token or, of many tokens, per every so many tokens.
// N: elements per access, 1 where alignment or the rotary size forbid vectors.
template <typename T, typename C, int N, bool kInterleaved>
__global__ void __launch_bounds__(kThreads, resident(kThreads, 12)) rotary_kernel(const RotaryParams p) {
  constexpr int kPairs = pairs_per_access<N>(kInterleaved);
  const int half = p.rotary_dim / 2;
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= p.lanes * (p.q_heads + p.k_heads)) return;
  const int head = p.lanes_shift >= 0 ? at >> p.lanes_shift : at / p.lanes;
  const int pair = (at - head * p.lanes) * kPairs;
  const bool is_q = head < p.q_heads;
  const int64_t token_stride = is_q ? p.q_token_stride : p.k_token_stride;
  // Where the first side of the first pair lies in a head, and from there the other.
  T* const first = (kInterleaved ? 2 * pair : pair) +
                   (is_q ? static_cast<T*>(p.q) + head * p.q_head_stride
                         : static_cast<T*>(p.k) + (head - p.q_heads) * p.k_head_stride);
  const int other = kInterleaved ? 1 : half;
  const C* const angles = static_cast<const C*>(p.cos_sin_cache) + pair;

  begin_dependent_launch();

  for (int64_t token = blockIdx.y; token < p.tokens; token += gridDim.y) {
    const int64_t position = position_of(p, token);
    rotate<T, C, N, kInterleaved>(first + token * token_stride, other, angles + position * p.cache_stride, half,
                                  uint64_t(position) < uint64_t(p.cache_rows));
  }
}

// Many tokens in sixteen bits: as many threads as the device holds walk over all
// heads of all tokens in the order of memory, 1% faster on an H200. Rotations of
// four-byte elements lost 6% by it.
template <typename T, typename C, int N, bool kInterleaved>
__global__ void __launch_bounds__(kThreads, resident(kThreads, kWalkers)) rotary_walk_kernel(const RotaryParams p) {
  const int half = p.rotary_dim / 2;
  const unsigned heads = p.q_heads + p.k_heads;
  const unsigned all = heads * unsigned(p.tokens);
  const unsigned step = (gridDim.x * kThreads) >> p.lanes_shift;
  const int pair = (threadIdx.x & ((1 << p.lanes_shift) - 1)) * pairs_per_access<N>(kInterleaved);
  const int first = kInterleaved ? 2 * pair : pair;

  begin_dependent_launch();

  for (unsigned at = (blockIdx.x * kThreads + threadIdx.x) >> p.lanes_shift; at < all; at += step) {
    const unsigned token = at / heads;
    const int64_t position = position_of(p, token);
    rotate<T, C, N, kInterleaved>(head_row<T>(p, token, int(at - token * heads)) + first, kInterleaved ? 1 : half,
                                  static_cast<const C*>(p.cos_sin_cache) + position * p.cache_stride + pair, half,
                                  uint64_t(position) < uint64_t(p.cache_rows));
  }
}

template <typename T, typename C, int N>
int launch_rotary(const RotaryArgs& args, void* stream, const Device& device) {
  RotaryParams p;
  static_cast<RotaryArgs&>(p) = args;
  p.lanes = p.rotary_dim / 2 / pairs_per_access<N>(p.interleaved);
  p.lanes_shift = p.lanes & (p.lanes - 1) ? -1 : __builtin_ctz(unsigned(p.lanes));
  const int64_t work = int64_t(p.lanes) * (p.q_heads + p.k_heads);
  if (work > 0x7fffffffLL - kThreads) return cudaErrorInvalidValue;
  const bool few = work * p.tokens < int64_t(device.sms) * 2048;
  if (sizeof(T) == 2 && !few && p.lanes_shift >= 0 && p.lanes <= kThreads &&
      int64_t(p.q_heads + p.k_heads) * p.tokens < 0x40000000) {
    const int fit = device.threads / kThreads;
    const dim3 grid(unsigned(device.sms * (fit < kWalkers ? fit : kWalkers)));
    auto kernel = p.interleaved ? rotary_walk_kernel<T, C, N, true> : rotary_walk_kernel<T, C, N, false>;
    return launch(kernel, grid, dim3(kThreads), 0, stream, device, p);
  }
  // A few tokens spread over many multiprocessors in blocks of two warps.
  // Many get blocks of three or four, whichever their lanes fill better, and
  // as many for each multiprocessor as was fastest on an H200.
  const int threads = few ? 64 : div_up(work, 96) * 96 <= div_up(work, kThreads) * kThreads ? 96 : kThreads;
  const int64_t blocks = div_up(work, threads);
  int64_t most = div_up(int64_t(device.sms) * (16384 / threads), blocks);
  if (most > 65535) most = 65535;
  const dim3 grid(unsigned(blocks), unsigned(p.tokens < most ? p.tokens : most));
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
