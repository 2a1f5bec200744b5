// The attention prologue of Qwen3 and Gemma 3: RMSNorm of every head of q and
// k, rounded to the dtype, then the rotation, in one launch.
//
// A simdgroup owns a head. It adds up the squares in rms_norm's order (the
// slices of args.h, one after the other), so the prologue equals rms_norm
// followed by rotary_embedding bit for bit. In the second pass a lane owns
// both sides of every pair that it rotates: no exchange between lanes.

#include "rotary.h"

namespace thox_edge_ops_metal {

template <typename T>
inline void prologue(constant PrologueParams& params, device T* q, device T* k, device const char* positions,
                     device const char* cache, device const T* q_weight, device const T* k_weight, uint3 group,
                     uint simdgroup, uint lane, uint simdgroups) {
  constant RotaryParams& p = params.rotary;
  const int head = int(group.x * simdgroups + simdgroup);
  if (head >= p.q_heads + p.k_heads) return;  // the whole simdgroup
  const long token = long(group.y);
  const bool aligned = p.aligned != 0;
  const int vectors = (p.head_dim + kVector - 1) / kVector;
  device T* row = head_row(p, q, k, token, head);
  device const T* weight = head < p.q_heads ? q_weight : k_weight;
  device const char* angles = angle_row(p, positions, cache, token, int(sizeof(T)));

  float mine = 0.0f;
  for (int slice = 0; slice < params.slices; ++slice) {
    float sum = 0.0f;
    for (int v = slice * kLanes + int(lane); v < vectors; v += params.slices * kLanes) {
      sum = add_squares<T>(load4(static_cast<device const T*>(row), v * kVector, p.head_dim, aligned), sum);
    }
    sum = simd_sum(sum);
    if (int(lane) == slice) mine = sum;
  }
  const float rstd = reciprocal_root(simd_sum(mine), params.inverse_dim, params.eps);
  // Every lane has read before one of them writes.
  simdgroup_barrier(mem_flags::mem_device);

  for (int pair = int(lane) * kVector; pair < p.half_dim; pair += kLanes * kVector) {
    Quad<T> quad, gain;
    quad.load(p, row, pair);
    gain.load(p, weight, pair);
    quad.a = normalized<T>(quad.a, rstd, gain.a, params.weight_offset);
    quad.b = normalized<T>(quad.b, rstd, gain.b, params.weight_offset);
    if (angles != nullptr) quad.turn(p, angles, pair);
    quad.store(p, row, pair);
  }
  for (int at = 2 * p.half_dim + int(lane) * kVector; at < p.head_dim; at += kLanes * kVector) {
    const vec<T, 4> x = load4(static_cast<device const T*>(row), at, p.head_dim, aligned);
    const vec<T, 4> w = load4(weight, at, p.head_dim, aligned);
    store4(row, at, p.head_dim, aligned, normalized<T>(x, rstd, w, params.weight_offset));
  }
}

}  // namespace thox_edge_ops_metal

// In no namespace, so that the library knows them by these names.
using namespace thox_edge_ops_metal;

#define PROLOGUE_KERNEL(NAME, T)                                                                               \
  kernel void qk_norm_rope_##NAME(                                                                             \
      constant PrologueParams& p [[buffer(0)]], device T* q [[buffer(1)]], device T* k [[buffer(2)]],          \
      device const char* positions [[buffer(3)]], device const char* cache [[buffer(4)]],                      \
      device const T* q_weight [[buffer(5)]], device const T* k_weight [[buffer(6)]],                          \
      uint3 group [[threadgroup_position_in_grid]], uint simdgroup [[simdgroup_index_in_threadgroup]],         \
      uint lane [[thread_index_in_simdgroup]], uint simdgroups [[simdgroups_per_threadgroup]]) {               \
    prologue<T>(p, q, k, positions, cache, q_weight, k_weight, group, simdgroup, lane, simdgroups);            \
  }

PROLOGUE_KERNEL(float32, float)
PROLOGUE_KERNEL(float16, half)
PROLOGUE_KERNEL(bfloat16, bfloat)
