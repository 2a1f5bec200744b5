// Loads, stores and the arithmetic that more than one shader uses.
//
// Arithmetic is fp32 with one rounding of each stored value. The pragmas turn
// off what the Metal compiler does by default and what would let an infinity,
// a NaN or the order of additions depend on its mood.
#pragma once

#include <metal_stdlib>

#include "args.h"

#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

namespace thox_edge_ops_metal {

using namespace metal;

// Elements [first, first + 4) of a row, zeros from `end` on. The aligned form
// is one access and needs all four inside.
template <typename T>
inline vec<T, 4> load4(device const T* row, int first, int end, bool aligned) {
  if (aligned) return *reinterpret_cast<device const vec<T, 4>*>(row + first);
  vec<T, 4> v = vec<T, 4>(T(0.0f));
  for (int i = 0; i < 4; ++i) {
    if (first + i < end) v[i] = row[first + i];
  }
  return v;
}

template <typename T>
inline void store4(device T* row, int first, int end, bool aligned, vec<T, 4> v) {
  if (aligned) {
    *reinterpret_cast<device vec<T, 4>*>(row + first) = v;
    return;
  }
  for (int i = 0; i < 4; ++i) {
    if (first + i < end) row[first + i] = v[i];
  }
}

template <typename T>
inline float add_squares(vec<T, 4> v, float sum) {
  for (int i = 0; i < 4; ++i) sum = metal::fma(float(v[i]), float(v[i]), sum);
  return sum;
}

template <typename T>
inline vec<T, 4> normalized(vec<T, 4> x, float rstd, vec<T, 4> weight, float weight_offset) {
  for (int i = 0; i < 4; ++i) x[i] = T(float(x[i]) * rstd * (float(weight[i]) + weight_offset));
  return x;
}

inline float reciprocal_root(float sum, float inverse_count, float eps) {
  return precise::rsqrt(metal::fma(sum, inverse_count, eps));
}

}  // namespace thox_edge_ops_metal
