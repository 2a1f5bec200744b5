// The attention prologue of Qwen3 and Gemma 3: RMSNorm of every head of q and
// k, rounded to the dtype, then the rotation, in one launch.
//
// A half or full warp owns a head. Its row stays in registers; where the two
// halves of a rotation lie in different lanes the partner's vector comes by
// shuffle. Rows that this does not fit (odd sizes, unaligned storage, more
// than one vector per lane) exchange their halves through shared memory. Both
// add up a head's squares in the order of rms_norm, so the prologue equals
// rms_norm followed by rotary_embedding bit for bit.

#include "launch.cuh"
#include "rotary.cuh"

namespace thox_edge_ops_cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kPairedThreads = 64;

struct PrologueParams : PrologueArgs {
  float inverse_dim;
};

constexpr int kMaxVecs = 64;  // per head in one launch; wider heads take two

template <typename T>
__device__ __forceinline__ const T* head_weight(const PrologueArgs& p, int head) {
  return static_cast<const T*>(head < p.rotary.q_heads ? p.q_weight : p.k_weight);
}

// One vector per lane, kLanes lanes per head, everything aligned.
template <typename T, typename C, int kLanes, bool kInterleaved>
__global__ void __launch_bounds__(kThreads) prologue_kernel(const PrologueParams p) {
  constexpr int N = kVec<T>;
  constexpr int kPairs = kInterleaved ? N / 2 : N;
  using V = Vec<T, N>;
  const RotaryArgs& r = p.rotary;
  const int heads = r.q_heads + r.k_heads;
  const int head = (blockIdx.x * blockDim.x + threadIdx.x) / kLanes;
  const int lane = threadIdx.x % kLanes;
  const int dim = r.head_dim;
  const int half = r.rotary_dim / 2;
  const int owner = head < heads ? head : heads - 1;  // lanes past the end follow along for the shuffles
  const bool held = lane * N < dim;                    // this lane has a part of the head
  const bool live = head < heads && held;

  // The first pair that this lane's vector takes part in, and its partner lane.
  const int shift = half / N;
  const bool second = !kInterleaved && lane >= shift;
  const int pair = kInterleaved ? lane * kPairs : (second ? lane - shift : lane) * N;
  const bool rotated = held && pair < half && (kInterleaved || lane < 2 * shift);
  const int partner = threadIdx.x % 32 - lane + (second ? lane - shift : lane + shift);

  begin_dependent_launch();

  V gain;
  bool ready = false;
  for (int64_t token = blockIdx.y; token < r.tokens; token += gridDim.y) {
    const int64_t position = position_of(r, token);
    T* row = head_row<T>(r, token, owner);
    V x;
    if (held) x = load<true, N>(static_cast<const T*>(row), lane * N, dim);
    if (held && !ready) gain = load<true, N>(head_weight<T>(p, owner), lane * N, dim);
    ready = true;
    const bool turns = rotated && uint64_t(position) < uint64_t(r.cache_rows);
    Angles<true, kPairs, C> cos, sin;
    if (turns) {
      const C* cache = static_cast<const C*>(r.cos_sin_cache) + position * r.cache_stride;
      cos.read(cache, pair);
      sin.read(cache + half, pair);
    }
    float sum = 0.f;
    if (held) {
#pragma unroll
      for (int i = 0; i < N; ++i) sum = fmaf(to_float(x.v[i]), to_float(x.v[i]), sum);
    }
    const float rstd = rsqrtf(fmaf(lane_sum<kLanes>(sum), p.inverse_dim, p.eps));
    if (held) {
#pragma unroll
      for (int i = 0; i < N; ++i)
        x.v[i] = from_float<T>(scale(to_float(x.v[i]), rstd, to_float(gain.v[i]) + p.weight_offset));
    }
    if constexpr (kInterleaved) {
      if (turns) {
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
          const float a = to_float(x.v[2 * i]), b = to_float(x.v[2 * i + 1]);
          x.v[2 * i] = from_float<T>(rotate_first(a, b, cos[i], sin[i]));
          x.v[2 * i + 1] = from_float<T>(rotate_second(a, b, cos[i], sin[i]));
        }
      }
    } else {
      V y;
      const uint32_t* from = reinterpret_cast<const uint32_t*>(&x);
      uint32_t* to = reinterpret_cast<uint32_t*>(&y);
#pragma unroll
      for (int i = 0; i < 4; ++i) to[i] = __shfl_sync(0xffffffffu, from[i], partner);
      if (turns) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const float mine = to_float(x.v[i]), other = to_float(y.v[i]);
          x.v[i] = from_float<T>(second ? rotate_second(other, mine, cos[i], sin[i])
                                        : rotate_first(mine, other, cos[i], sin[i]));
        }
      }
    }
    if (live) store<true, N>(row, lane * N, dim, x);
  }
}

// Two vectors per lane, kLanes lanes per head of exactly 2 * kLanes vectors:
// lane l holds vectors l and l + kLanes. Where the whole head is rotated in
// halves, both sides of every pair are then in one lane, the angles are read
// once for both, and the sums need one shuffle less per vector. Blocks are of
// two warps: the lanes of all heads of common models fill them without a rest.
template <typename T, typename C, int kLanes, bool kInterleaved>
__global__ void __launch_bounds__(kPairedThreads, resident(kPairedThreads, 16)) paired_prologue_kernel(const PrologueParams p) {
  constexpr int N = kVec<T>;
  constexpr int kPairs = kInterleaved ? N / 2 : N;
  constexpr int kSets = kInterleaved ? 2 : 1;  // groups of angles per lane
  using V = Vec<T, N>;
  const RotaryArgs& r = p.rotary;
  const int head = (blockIdx.x * blockDim.x + threadIdx.x) / kLanes;
  if (head - int(threadIdx.x % 32) / kLanes >= r.q_heads + r.k_heads) return;  // whole warps only
  const int lane = threadIdx.x % kLanes;
  const int half = r.rotary_dim / 2;
  const bool live = head < r.q_heads + r.k_heads;
  // Lanes past the last head repeat it for the shuffles and store nothing.
  const int owner = live ? head : r.q_heads + r.k_heads - 1;
  const bool is_q = owner < r.q_heads;
  const int first = lane * N, second = first + kLanes * N;
  T* row = first + (is_q ? static_cast<T*>(r.q) + owner * r.q_head_stride
                         : static_cast<T*>(r.k) + (owner - r.q_heads) * r.k_head_stride);
  const int64_t token_stride = is_q ? r.q_token_stride : r.k_token_stride;
  const T* weight = static_cast<const T*>(is_q ? p.q_weight : p.k_weight);

  begin_dependent_launch();

  const V ga = load<true, N>(weight, first, 0), gb = load<true, N>(weight, second, 0);
  for (int64_t token = blockIdx.y; token < r.tokens; token += gridDim.y) {
    const int64_t position = position_of(r, token);
    T* at = row + token * token_stride;
    V a = load<true, N>(static_cast<const T*>(at), 0, 0);
    V b = load<true, N>(static_cast<const T*>(at), kLanes * N, 0);
    const bool inside = uint64_t(position) < uint64_t(r.cache_rows);
    Angles<true, kPairs, C> cos[kSets], sin[kSets];
    if (inside) {
      const C* cache = static_cast<const C*>(r.cos_sin_cache) + position * r.cache_stride;
      if constexpr (kInterleaved) {
        if (first < 2 * half) cos[0].read(cache, first / 2), sin[0].read(cache + half, first / 2);
        if (second < 2 * half) cos[1].read(cache, second / 2), sin[1].read(cache + half, second / 2);
      } else {
        cos[0].read(cache, first);
        sin[0].read(cache + half, first);
      }
    }
    float sa = 0.f, sb = 0.f;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      sa = fmaf(to_float(a.v[i]), to_float(a.v[i]), sa);
      sb = fmaf(to_float(b.v[i]), to_float(b.v[i]), sb);
    }
    // Up to 32 vectors are one slice of rms_norm's sum, 64 are two.
    const float sum = kLanes == 32 ? lane_sum<32>(sa) + lane_sum<32>(sb) : lane_sum<kLanes>(sa + sb);
    const float rstd = rsqrtf(fmaf(sum, p.inverse_dim, p.eps));
#pragma unroll
    for (int i = 0; i < N; ++i) {
      a.v[i] = from_float<T>(scale(to_float(a.v[i]), rstd, to_float(ga.v[i]) + p.weight_offset));
      b.v[i] = from_float<T>(scale(to_float(b.v[i]), rstd, to_float(gb.v[i]) + p.weight_offset));
    }
    if (inside) {
      if constexpr (kInterleaved) {
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
          if (first < 2 * half) {
            const float u = to_float(a.v[2 * i]), v = to_float(a.v[2 * i + 1]);
            a.v[2 * i] = from_float<T>(rotate_first(u, v, cos[0][i], sin[0][i]));
            a.v[2 * i + 1] = from_float<T>(rotate_second(u, v, cos[0][i], sin[0][i]));
          }
          if (second < 2 * half) {
            const float u = to_float(b.v[2 * i]), v = to_float(b.v[2 * i + 1]);
            b.v[2 * i] = from_float<T>(rotate_first(u, v, cos[1][i], sin[1][i]));
            b.v[2 * i + 1] = from_float<T>(rotate_second(u, v, cos[1][i], sin[1][i]));
          }
        }
      } else {
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const float u = to_float(a.v[i]), v = to_float(b.v[i]);
          a.v[i] = from_float<T>(rotate_first(u, v, cos[0][i], sin[0][i]));
          b.v[i] = from_float<T>(rotate_second(u, v, cos[0][i], sin[0][i]));
        }
      }
    }
    if (live) {
      store<true, N>(at, 0, 0, a);
      store<true, N>(at, kLanes * N, 0, b);
    }
  }
}

// Any head of up to kMaxVecs vectors, one warp per head, halves exchanged
// through the warp's own part of shared memory.
template <typename T, typename C, bool kInterleaved>
__global__ void __launch_bounds__(kThreads) prologue_any_kernel(const PrologueParams p) {
  constexpr int N = kVec<T>;
  constexpr int kSlots = kMaxVecs / 32;
  static_assert(kSlots == 2, "the sum over slices below is written for two");
  extern __shared__ unsigned char shared[];
  const RotaryArgs& r = p.rotary;
  const int dim = r.head_dim;
  const int half = r.rotary_dim / 2;
  const int lane = threadIdx.x % 32;
  const int head = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (head >= r.q_heads + r.k_heads) return;
  T* scratch = reinterpret_cast<T*>(shared) + (threadIdx.x / 32) * dim;

  begin_dependent_launch();

  const T* weight = head_weight<T>(p, head);
  for (int64_t token = blockIdx.y; token < r.tokens; token += gridDim.y) {
    T* row = head_row<T>(r, token, head);
    Vec<T, N> x[kSlots];
    float sum[kSlots];
#pragma unroll
    for (int j = 0; j < kSlots; ++j) {
      x[j] = load<false, N>(static_cast<const T*>(row), (lane + 32 * j) * N, dim);
      sum[j] = 0.f;
#pragma unroll
      for (int i = 0; i < N; ++i) sum[j] = fmaf(to_float(x[j].v[i]), to_float(x[j].v[i]), sum[j]);
      sum[j] = lane_sum<32>(sum[j]);
    }
    const float rstd = rsqrtf(fmaf(sum[0] + sum[1], p.inverse_dim, p.eps));
#pragma unroll
    for (int j = 0; j < kSlots; ++j) {
      const int first = (lane + 32 * j) * N;
      const Vec<T, N> gain = load<false, N>(weight, first, dim);
#pragma unroll
      for (int i = 0; i < N; ++i)
        x[j].v[i] = from_float<T>(scale(to_float(x[j].v[i]), rstd, to_float(gain.v[i]) + p.weight_offset));
      store<false, N>(scratch, first, dim, x[j]);
    }
    __syncwarp();
    const int64_t position = position_of(r, token);
    const bool inside = uint64_t(position) < uint64_t(r.cache_rows);
    const C* cache = static_cast<const C*>(r.cos_sin_cache) + (inside ? position * r.cache_stride : 0);
    for (int i = lane; i < half && inside; i += 32) {
      const int at = kInterleaved ? 2 * i : i, other = kInterleaved ? 2 * i + 1 : i + half;
      const float a = to_float(scratch[at]), b = to_float(scratch[other]);
      const float c = to_float(cache[i]), s = to_float(cache[half + i]);
      row[at] = from_float<T>(rotate_first(a, b, c, s));
      row[other] = from_float<T>(rotate_second(a, b, c, s));
    }
    for (int i = (inside ? 2 * half : 0) + lane; i < dim; i += 32) row[i] = scratch[i];
    __syncwarp();  // the next token reuses the scratch row
  }
}

// Blocks along the tokens: enough to fill the machine several times (as many
// threads for each multiprocessor as was fastest on an H200), few enough that
// a thread keeps its weights over several tokens.
unsigned token_blocks(int64_t tokens, int64_t head_blocks, int threads, int per_sm, const Device& device) {
  int64_t most = div_up(int64_t(device.sms) * (per_sm / threads), head_blocks);
  if (most > 65535) most = 65535;
  return unsigned(tokens < most ? tokens : most);
}

template <typename T, typename C, int kLanes>
int launch_lanes(const PrologueParams& p, void* stream, const Device& device) {
  const int heads = p.rotary.q_heads + p.rotary.k_heads;
  const int64_t work = p.rotary.tokens * heads * kLanes;
  const bool inter = p.rotary.interleaved;
  // At a few tokens small blocks reach more multiprocessors.
  const int threads = work < int64_t(device.sms) * 2048 ? 64 : kThreads;
  const int64_t blocks = div_up(heads, threads / kLanes);
  const dim3 grid(unsigned(blocks), token_blocks(p.rotary.tokens, blocks, threads, 4096, device));
  auto kernel = inter ? prologue_kernel<T, C, kLanes, true> : prologue_kernel<T, C, kLanes, false>;
  return launch(kernel, grid, dim3(threads), 0, stream, device, p);
}

template <typename T, typename C, int kLanes>
int launch_paired(const PrologueParams& p, void* stream, const Device& device) {
  constexpr int threads = kPairedThreads;
  const int64_t blocks = div_up(p.rotary.q_heads + p.rotary.k_heads, threads / kLanes);
  const dim3 grid(unsigned(blocks), token_blocks(p.rotary.tokens, blocks, threads, 8192, device));
  auto kernel = p.rotary.interleaved ? paired_prologue_kernel<T, C, kLanes, true>
                                     : paired_prologue_kernel<T, C, kLanes, false>;
  return launch(kernel, grid, dim3(threads), 0, stream, device, p);
}

template <typename T, typename C>
int prologue(const PrologueArgs& args, DType dtype, void* stream) {
  constexpr int N = kVec<T>;
  PrologueParams p;
  static_cast<PrologueArgs&>(p) = args;
  p.inverse_dim = 1.f / float(args.rotary.head_dim);
  const RotaryArgs& r = p.rotary;
  Device device;
  if (int err = current_device(&device)) return err;
  const int64_t vecs = div_up(r.head_dim, N);
  if (vecs > kMaxVecs) {  // heads wider than a warp's registers: the two ops after each other
    for (int side = 0; side < 2; ++side) {
      const int heads = side ? r.k_heads : r.q_heads;
      const int64_t stride = side ? r.k_token_stride : r.q_token_stride;
      const int64_t head_stride = side ? r.k_head_stride : r.q_head_stride;
      for (int h = 0; h < heads; ++h) {
        void* row = static_cast<T*>(side ? r.k : r.q) + h * head_stride;
        const NormArgs norm = {row,    row,    nullptr, side ? p.k_weight : p.q_weight, r.tokens, r.head_dim,
                               stride, stride, 0,       p.eps,                          p.weight_offset};
        if (int err = rms_norm(norm, dtype, stream)) return err;
      }
    }
    return rotary_embedding(r, dtype, stream);
  }
  const bool aligned = rotary_aligned<T, C>(r) && aligned16(p.q_weight) && aligned16(p.k_weight);
  if (aligned && (r.interleaved || r.rotary_dim == r.head_dim)) {
    if (vecs == 8) return launch_paired<T, C, 4>(p, stream, device);
    if (vecs == 16) return launch_paired<T, C, 8>(p, stream, device);
    if (vecs == 32) return launch_paired<T, C, 16>(p, stream, device);
    if (vecs == 64) return launch_paired<T, C, 32>(p, stream, device);
  }
  const bool vectors = aligned && vecs <= 32;
  if (vectors && vecs <= 8) return launch_lanes<T, C, 8>(p, stream, device);
  if (vectors && vecs <= 16) return launch_lanes<T, C, 16>(p, stream, device);
  if (vectors) return launch_lanes<T, C, 32>(p, stream, device);
  const int warps = kThreads / 32;
  const int64_t blocks = div_up(r.q_heads + r.k_heads, warps);
  const dim3 grid(unsigned(blocks), token_blocks(r.tokens, blocks, kThreads, 4096, device));
  auto kernel = r.interleaved ? prologue_any_kernel<T, C, true> : prologue_any_kernel<T, C, false>;
  return launch(kernel, grid, dim3(kThreads), size_t(warps) * r.head_dim * sizeof(T), stream, device, p);
}

template <typename T>
int prologue(const PrologueArgs& p, DType dtype, void* stream) {
  return p.rotary.cache_is_float32 ? prologue<T, float>(p, dtype, stream) : prologue<T, T>(p, dtype, stream);
}

}  // namespace

int qk_norm_rope(const PrologueArgs& args, DType dtype, void* stream) {
  const RotaryArgs& r = args.rotary;
  if (r.tokens == 0 || r.q_heads + r.k_heads == 0 || r.head_dim == 0) return cudaSuccess;
  switch (dtype) {
    case kFloat32: return prologue<float, float>(args, dtype, stream);
    case kFloat16: return prologue<__half>(args, dtype, stream);
    case kBFloat16: return prologue<__nv_bfloat16>(args, dtype, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace thox_edge_ops_cuda
