// The row primitives, written once over sixteen lanes; each unit compiles them
// with its own registers.
//
// A row's result depends on its elements and its length only: the order of
// summation is fixed, and neither the stride, the alignment, the number of
// rows nor the thread changes it.
#pragma once

#include "gate.h"

namespace thox_edge_ops_cpu {
namespace {

#define THOX_LAMBDA __attribute__((always_inline))

// Calls at(kind, i, j) for the elements from i of [0, length), kind by kind: a
// Pair is 32 elements, a Whole sixteen and a Tail the rest. j = 0, 1, 2, 3 is
// the sum that the block's first F belongs to.
template <class Fn>
THOX_INLINE void each_block(int64_t length, Fn at) {
  int64_t i = 0;
  for (; i + 4 * kLanes <= length; i += 4 * kLanes) {
    at(Pair{}, i, 0);
    at(Pair{}, i + 2 * kLanes, 2);
  }
  if (i + 2 * kLanes <= length) at(Pair{}, i, 0), i += 2 * kLanes;
  if (i + kLanes <= length) at(Whole{}, i, 2), i += kLanes;
  if (i < length) at(Tail{int(length - i)}, i, 3);
}

#define THOX_EACH(N) _Pragma("GCC unroll 2") for (int k = 0; k < N; ++k)

// A sum of squares in four times sixteen lanes, so that an addition need not
// wait for the one before it.
struct Squares {
  F sum[4] = {splat(0.f), splat(0.f), splat(0.f), splat(0.f)};

  THOX_INLINE void add_at(int j, F v) { sum[j] = add(sum[j], mul(v, v)); }

  // 1 / sqrt(total / n + eps), each operation correctly rounded.
  THOX_INLINE float inverse_rms(int64_t n, float eps) const {
    const float total = lane_sum(add(add(sum[0], sum[1]), add(sum[2], sum[3])));
    return 1.f / scalar_sqrt(total / float(n) + eps);
  }
};

template <class T>
THOX_INLINE float inverse_rms(const T* x, int64_t n, float eps) {
  Squares squares;
  each_block(n, [&](auto kind, int64_t i, int j) THOX_LAMBDA {
    F v[kind.count];
    kind.load(x + i, v);
    THOX_EACH(kind.count) squares.add_at(j + k, v[k]);
  });
  return squares.inverse_rms(n, eps);
}

// Rows of at most so many bytes leave room in the first-level cache for the next
// one: five times this, with both inputs, the output and the weight.
constexpr int64_t kAheadBytes = 5 << 10;

struct Ahead {
  static constexpr bool value = true;
};
struct NotAhead {
  static constexpr bool value = false;
};

// Asks for the elements of a block, 64 bytes at a time, where it is a whole one.
template <class T, class Kind>
THOX_INLINE void ask_for(const T* p, Kind) {
  constexpr int each = 64 / int(sizeof(T));
  _Pragma("GCC unroll 2") for (int i = 0; i + each <= Kind::count * kLanes; i += each) __builtin_prefetch(p + i);
}

// The row's second pass finds it in the first-level cache, and has the memory
// for itself: it asks for the next row meanwhile.
template <class T, bool kAdd>
void norm_rows(const NormArgs& p, int64_t begin, int64_t end) {
  const T* const weight = static_cast<const T*>(p.weight);
  const F offset = splat(p.weight_offset);
  for (int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(p.x) + row * p.x_stride;
    T* const out = static_cast<T*>(p.out) + row * p.out_stride;
    float scale;
    if constexpr (kAdd) {
      T* const residual = static_cast<T*>(p.residual) + row * p.residual_stride;
      Squares squares;
      each_block(p.cols, [&](auto kind, int64_t i, int j) THOX_LAMBDA {
        F v[kind.count], r[kind.count];
        kind.load(x + i, v);
        kind.load(residual + i, r);
        THOX_EACH(kind.count) r[k] = add(v[k], r[k]);
        kind.store(residual + i, r);
        if constexpr (sizeof(T) < sizeof(float)) kind.load(residual + i, r);  // rounded
        THOX_EACH(kind.count) squares.add_at(j + k, r[k]);
      });
      scale = squares.inverse_rms(p.cols, p.eps);
      x = residual;
    } else {
      scale = inverse_rms(x, p.cols, p.eps);
    }
    const F s = splat(scale);
    const T* const next_x = static_cast<const T*>(p.x) + (row + 1) * p.x_stride;
    const T* const next_residual = static_cast<const T*>(p.residual) + (row + 1) * p.residual_stride;
    const auto scaled = [&](auto ahead) THOX_LAMBDA {
      each_block(p.cols, [&](auto kind, int64_t i, int) THOX_LAMBDA {
        F v[kind.count], w[kind.count];
        if constexpr (decltype(ahead)::value) {
          ask_for(next_x + i, kind);
          if constexpr (kAdd) ask_for(next_residual + i, kind);
        }
        kind.load(x + i, v);
        kind.load(weight + i, w);
        THOX_EACH(kind.count) v[k] = mul(mul(v[k], s), add(w[k], offset));
        kind.store(out + i, v);
      });
    };
    if (row + 1 < end && p.cols * int64_t(sizeof(T)) <= kAheadBytes) {
      scaled(Ahead{});
    } else {
      scaled(NotAhead{});
    }
  }
}

template <class T, int kAct>
void gate_blocks(const GateArgs& p, int64_t begin, int64_t end) {
  const int64_t blocks = (p.cols + kGateBlock - 1) / kGateBlock;
  int64_t row = begin / blocks, block = begin % blocks;
  const GateConstants<kAct, !THOX_FUSED && sizeof(T) < sizeof(float)> constants;
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t first = block * kGateBlock;
    const int64_t cols = p.cols - first < kGateBlock ? p.cols - first : kGateBlock;
    const T* const gate = static_cast<const T*>(p.x) + row * p.x_stride + first;
    const T* const up = gate + p.cols;
    T* const out = static_cast<T*>(p.out) + row * p.out_stride + first;
    const auto in_registers = [&](int64_t from, int64_t to) THOX_LAMBDA {
      each_block(to - from, [&](auto kind, int64_t i, int) THOX_LAMBDA {
        i += from;
        F g[kind.count], u[kind.count];
        kind.load(gate + i, g);
        kind.load(up + i, u);
        gated(constants, g, u);
        kind.store_computed(out + i, g);
      });
    };
    int64_t from = 0;
#if !THOX_FUSED
    for (; from + kChunk <= cols; from += kChunk) {
      if (!gated_chunk(constants, out + from, gate + from, up + from)) in_registers(from, from + kChunk);
    }
#endif
    in_registers(from, cols);
    if (++block == blocks) block = 0, ++row;
  }
}

// Reads a head's elements as they are.
template <class T>
struct Plain {
  const T* head;

  template <bool kTail>
  THOX_INLINE F get(int i, int n) const {
    return load_n<kTail>(head + i, n);
  }
};

// Reads a head's elements normalized and rounded to their type.
template <class T>
struct Normalized {
  const T* head;
  const T* weight;
  F scale, offset;

  template <bool kTail>
  THOX_INLINE F get(int i, int n) const {
    const F gain = add(load_n<kTail>(weight + i, n), offset);
    return rounded<T>(mul(mul(load_n<kTail>(head + i, n), scale), gain));
  }
};

// Rotates pairs (a, b) to (a c - b s, b c + a s).
THOX_INLINE void rotate(F& a, F& b, F c, F s) {
  const F x = sub(mul(a, c), mul(b, s));
  b = add(mul(b, c), mul(a, s));
  a = x;
}

// Rotates n <= 16 pairs (i, i + half).
template <bool kTail, class T, class C, class In>
THOX_INLINE void rotate_halves(T* head, In in, const C* cos, int half, int i, int n) {
  F a = in.template get<kTail>(i, n);
  F b = in.template get<kTail>(half + i, n);
  rotate(a, b, load_n<kTail>(cos + i, n), load_n<kTail>(cos + half + i, n));
  store_n<kTail>(head + i, a, n);
  store_n<kTail>(head + half + i, b, n);
}

// Rotates n <= 16 pairs (2i, 2i + 1): two vectors, the second one empty where
// at most eight pairs are left.
template <bool kTail, class T, class C, class In>
THOX_INLINE void rotate_pairs(T* head, In in, const C* cos, int half, int i, int n) {
  const int low = kTail && n < 8 ? 2 * n : kLanes, high = 2 * n - low;
  F a, b = splat(0.f);
  if (kTail && low < kLanes) {
    a = in.template get<true>(2 * i, low);
  } else {
    a = in.template get<false>(2 * i, kLanes);
    if (!kTail) {
      b = in.template get<false>(2 * i + kLanes, kLanes);
    } else if (high > 0) {
      b = in.template get<true>(2 * i + kLanes, high);
    }
  }
  deinterleave(a, b);
  rotate(a, b, load_n<kTail>(cos + i, n), load_n<kTail>(cos + half + i, n));
  interleave(a, b);
  if (kTail && low < kLanes) {
    store_tail(head + 2 * i, a, low);
  } else {
    store(head + 2 * i, a);
    if (!kTail) {
      store(head + 2 * i + kLanes, b);
    } else if (high > 0) {
      store_tail(head + 2 * i + kLanes, b, high);
    }
  }
}

template <bool kInterleaved, class T, class C, class In>
THOX_INLINE void rotate_head(T* head, In in, const C* cos, int half) {
  int i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    if constexpr (kInterleaved) {
      rotate_pairs<false>(head, in, cos, half, i, kLanes);
    } else {
      rotate_halves<false>(head, in, cos, half, i, kLanes);
    }
  }
  if (i < half) {
    if constexpr (kInterleaved) {
      rotate_pairs<true>(head, in, cos, half, i, half - i);
    } else {
      rotate_halves<true>(head, in, cos, half, i, half - i);
    }
  }
}

// The token's row of the cache, or null where its position is outside.
template <class C>
THOX_INLINE const C* cache_row(const RotaryArgs& p, int64_t token) {
  const int64_t at = token * p.position_stride;
  const int64_t position = p.positions_are_int64 ? static_cast<const int64_t*>(p.positions)[at]
                                                 : static_cast<const int32_t*>(p.positions)[at];
  if (position < 0 || position >= p.cache_rows) return nullptr;
  return static_cast<const C*>(p.cos_sin_cache) + position * p.cache_stride;
}

// Calls at(head, is_k, row) for the heads [begin, end) of all tokens' q and k
// heads; row is the token's part of the cache, or null.
template <class T, class C, class Fn>
THOX_INLINE void each_head(const RotaryArgs& p, int64_t begin, int64_t end, Fn at) {
  if (begin >= end) return;
  const int64_t heads = int64_t(p.q_heads) + p.k_heads;
  int64_t token = begin / heads, head = begin % heads;
  for (int64_t unit = begin; unit < end; ++token, head = 0) {
    const C* const row = cache_row<C>(p, token);
    T* const q = static_cast<T*>(p.q) + token * p.q_token_stride;
    T* const k = static_cast<T*>(p.k) + token * p.k_token_stride;
    for (; head < heads && unit < end; ++head, ++unit) {
      const bool is_k = head >= p.q_heads;
      at(is_k ? k + (head - p.q_heads) * p.k_head_stride : q + head * p.q_head_stride, is_k, row);
    }
  }
}

template <class T, class C, bool kInterleaved>
void rotary_heads(const RotaryArgs& p, int64_t begin, int64_t end) {
  each_head<T, C>(p, begin, end, [&](T* head, bool, const C* row) THOX_LAMBDA {
    if (row) rotate_head<kInterleaved>(head, Plain<T>{head}, row, p.rotary_dim / 2);
  });
}

template <class T, class C, bool kInterleaved>
void prologue_heads(const PrologueArgs& p, int64_t begin, int64_t end) {
  const RotaryArgs& r = p.rotary;
  const F offset = splat(p.weight_offset);
  each_head<T, C>(r, begin, end, [&](T* head, bool is_k, const C* row) THOX_LAMBDA {
    const T* const weight = static_cast<const T*>(is_k ? p.k_weight : p.q_weight);
    const Normalized<T> in{head, weight, splat(inverse_rms<T>(head, r.head_dim, p.eps)), offset};
    int i = 0;
    if (row) {
      rotate_head<kInterleaved>(head, in, row, r.rotary_dim / 2);
      i = r.rotary_dim;
    }
    for (; i + kLanes <= r.head_dim; i += kLanes) store(head + i, in.template get<false>(i, kLanes));
    if (i < r.head_dim) store_tail(head + i, in.template get<true>(i, r.head_dim - i), r.head_dim - i);
  });
}

#define THOX_BY_TYPE(FN, ...) \
  {FN<float, ##__VA_ARGS__>, FN<Half, ##__VA_ARGS__>, FN<BFloat16, ##__VA_ARGS__>}
#define THOX_BY_CACHE(FN, INTERLEAVED) \
  {FN<float, float, INTERLEAVED>, FN<Half, Half, INTERLEAVED>, FN<BFloat16, BFloat16, INTERLEAVED>}

#define THOX_ROTARY(FN)                                                       \
  {{THOX_BY_CACHE(FN, false), THOX_BY_CACHE(FN, true)},                       \
   {THOX_BY_TYPE(FN, float, false), THOX_BY_TYPE(FN, float, true)}}

#define THOX_DEFINE_UNIT(NAME)                                                \
  constexpr Unit unit_table = {                                               \
      #NAME,                                                                  \
      THOX_BY_TYPE(norm_rows, false),                                         \
      THOX_BY_TYPE(norm_rows, true),                                          \
      {THOX_BY_TYPE(gate_blocks, kSilu), THOX_BY_TYPE(gate_blocks, kGeluTanh)}, \
      THOX_ROTARY(rotary_heads),                                              \
      THOX_ROTARY(prologue_heads),                                            \
  };

}  // namespace
}  // namespace thox_edge_ops_cpu
