// The rotation of a head's pairs, shared by rotary_embedding and the prologue.
#pragma once

#include "common.h"

namespace thox_edge_ops_metal {

// The row of the angle cache for a token; null where its position lies outside.
inline device const char* angle_row(constant RotaryParams& p, device const char* positions,
                                    device const char* cache, long token, int element_size) {
  const long at = token * p.position_stride;
  const long position = p.positions_are_int64 != 0 ? reinterpret_cast<device const long*>(positions)[at]
                                                   : long(reinterpret_cast<device const int*>(positions)[at]);
  if (position < 0 || position >= p.cache_rows) return nullptr;
  return cache + position * p.cache_stride * (p.cache_is_float32 != 0 ? 4 : element_size);
}

// The row of one head of q or k; heads of k follow those of q.
template <typename T>
inline device T* head_row(constant RotaryParams& p, device T* q, device T* k, long token, int head) {
  return head < p.q_heads ? q + token * p.q_token_stride + head * p.q_head_stride
                          : k + token * p.k_token_stride + (head - p.q_heads) * p.k_head_stride;
}

// Four neighbouring cosines or sines.
template <typename T>
inline float4 angles4(constant RotaryParams& p, device const char* row, int first, int end) {
  float4 r = float4(0.0f);
  if (p.cache_is_float32 != 0) return load4(reinterpret_cast<device const float*>(row), first, end, p.aligned != 0);
  const vec<T, 4> v = load4(reinterpret_cast<device const T*>(row), first, end, p.aligned != 0);
  for (int i = 0; i < 4; ++i) r[i] = float(v[i]);
  return r;
}

// (a, b) -> (a c - b s, b c + a s), each with one fused multiply-add.
template <typename T>
inline void rotate_pair(thread T& a, thread T& b, float c, float s) {
  const float x = float(a), y = float(b);
  a = T(metal::fma(x, c, -(y * s)));
  b = T(metal::fma(y, c, x * s));
}

// The four pairs from `pair` on: halves in a and b, or eight elements in a row.
template <typename T>
struct Quad {
  vec<T, 4> a, b;

  // Where a and b lie in a head, and where the part that they belong to ends.
  static inline int a_at(constant RotaryParams& p, int pair) { return p.interleaved != 0 ? 2 * pair : pair; }
  static inline int b_at(constant RotaryParams& p, int pair) {
    return p.interleaved != 0 ? 2 * pair + 4 : pair + p.half_dim;
  }
  static inline int a_end(constant RotaryParams& p) { return p.interleaved != 0 ? 2 * p.half_dim : p.half_dim; }
  static inline int b_end(constant RotaryParams& p) { return 2 * p.half_dim; }

  inline void load(constant RotaryParams& p, device const T* row, int pair) {
    a = load4(row, a_at(p, pair), a_end(p), p.aligned != 0);
    b = load4(row, b_at(p, pair), b_end(p), p.aligned != 0);
  }
  inline void store(constant RotaryParams& p, device T* row, int pair) {
    store4(row, a_at(p, pair), a_end(p), p.aligned != 0, a);
    store4(row, b_at(p, pair), b_end(p), p.aligned != 0, b);
  }
  inline void turn(constant RotaryParams& p, device const char* angles, int pair) {
    const float4 c = angles4<T>(p, angles, pair, p.half_dim);
    const float4 s = angles4<T>(p, angles + p.half_dim * (p.cache_is_float32 != 0 ? 4 : int(sizeof(T))), pair,
                                p.half_dim);
    T e[8];
    for (int i = 0; i < 4; ++i) {
      e[i] = a[i];
      e[4 + i] = b[i];
    }
    for (int i = 0; i < 4; ++i) {
      const int first = p.interleaved != 0 ? 2 * i : i;
      const int second = p.interleaved != 0 ? 2 * i + 1 : i + 4;
      rotate_pair(e[first], e[second], c[i], s[i]);
    }
    for (int i = 0; i < 4; ++i) {
      a[i] = e[i];
      b[i] = e[4 + i];
    }
  }
};

}  // namespace thox_edge_ops_metal
