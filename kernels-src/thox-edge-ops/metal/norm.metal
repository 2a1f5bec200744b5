// RMSNorm and fused residual-add RMSNorm.
//
// A row belongs to one or more simdgroups of one threadgroup. Each slice of
// the row (see args.h) is summed with simd_sum, and so are the slices. A thread
// keeps its first vector in registers between the two passes; rows of up to
// 4096 elements have no second one.

#include "common.h"

namespace thox_edge_ops_metal {

template <typename T, bool kAdd>
inline void norm_rows(constant NormParams& p, device T* out, device const T* x, device T* residual,
                      device const T* weight, threadgroup float* partial, uint group, uint simdgroup, uint lane,
                      uint simdgroups) {
  const int per_row = int(simdgroups) / p.rows_per_group;  // simdgroups that share a row
  const int slot = int(simdgroup) / per_row;
  const int rank = int(simdgroup) % per_row;
  const long row = long(group) * p.rows_per_group + slot;
  const bool live = slot < p.rows_per_group && row < p.rows;
  const bool aligned = p.aligned != 0;
  const int vectors = live ? (p.cols + kVector - 1) / kVector : 0;
  const int step = p.slices * kLanes;
  if (live) {
    out += row * p.out_stride;
    x += row * p.x_stride;
    if (kAdd) residual += row * p.residual_stride;
    partial += slot * p.slices;
  }

  vec<T, 4> held = vec<T, 4>(T(0.0f));
  const int held_at = rank * kLanes + int(lane);
  float sum = 0.0f;
  for (int slice = rank; slice < p.slices; slice += per_row) {
    sum = 0.0f;
    for (int v = slice * kLanes + int(lane); v < vectors; v += step) {
      vec<T, 4> r = load4(x, v * kVector, p.cols, aligned);
      if (kAdd) {
        const vec<T, 4> a = load4(static_cast<device const T*>(residual), v * kVector, p.cols, aligned);
        for (int i = 0; i < 4; ++i) r[i] = T(float(r[i]) + float(a[i]));
        store4(residual, v * kVector, p.cols, aligned, r);
      }
      sum = add_squares<T>(r, sum);
      if (v == held_at) held = r;
    }
    sum = simd_sum(sum);
    if (p.slices > 1 && live && lane == 0) partial[slice] = sum;
  }
  if (p.slices > 1) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    sum = simd_sum(live && int(lane) < p.slices ? partial[lane] : 0.0f);
  }
  const float rstd = reciprocal_root(sum, p.inverse_cols, p.eps);

  // A thread reads back only what no other thread has written.
  device const T* source = kAdd ? static_cast<device const T*>(residual) : x;
  for (int slice = rank; slice < p.slices; slice += per_row) {
    for (int v = slice * kLanes + int(lane); v < vectors; v += step) {
      const vec<T, 4> r = v == held_at ? held : load4(source, v * kVector, p.cols, aligned);
      const vec<T, 4> w = load4(weight, v * kVector, p.cols, aligned);
      store4(out, v * kVector, p.cols, aligned, normalized<T>(r, rstd, w, p.weight_offset));
    }
  }
}

}  // namespace thox_edge_ops_metal

// In no namespace, so that the library knows them by these names.
using namespace thox_edge_ops_metal;

#define NORM_KERNELS(NAME, T)                                                                                 \
  kernel void rms_norm_##NAME(constant NormParams& p [[buffer(0)]], device T* out [[buffer(1)]],              \
                              device const T* x [[buffer(2)]], device const T* weight [[buffer(3)]],          \
                              threadgroup float* partial [[threadgroup(0)]],                                  \
                              uint3 group [[threadgroup_position_in_grid]],                                   \
                              uint simdgroup [[simdgroup_index_in_threadgroup]],                              \
                              uint lane [[thread_index_in_simdgroup]],                                        \
                              uint simdgroups [[simdgroups_per_threadgroup]]) {                               \
    norm_rows<T, false>(p, out, x, out, weight, partial, group.x, simdgroup, lane, simdgroups);               \
  }                                                                                                           \
  kernel void fused_add_rms_norm_##NAME(                                                                      \
      constant NormParams& p [[buffer(0)]], device T* out [[buffer(1)]], device const T* x [[buffer(2)]],     \
      device const T* weight [[buffer(3)]], device T* residual [[buffer(4)]],                                 \
      threadgroup float* partial [[threadgroup(0)]], uint3 group [[threadgroup_position_in_grid]],            \
      uint simdgroup [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],             \
      uint simdgroups [[simdgroups_per_threadgroup]]) {                                                       \
    norm_rows<T, true>(p, out, x, residual, weight, partial, group.x, simdgroup, lane, simdgroups);           \
  }

NORM_KERNELS(float32, float)
NORM_KERNELS(float16, half)
NORM_KERNELS(bfloat16, bfloat)
