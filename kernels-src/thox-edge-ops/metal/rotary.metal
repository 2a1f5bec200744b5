// Rotary embedding in place on q and k with one launch. A thread owns four
// pairs of one head; heads of q and k share one index space.

#include "rotary.h"

namespace thox_edge_ops_metal {

template <typename T>
inline void rotary(constant RotaryParams& p, device T* q, device T* k, device const char* positions,
                   device const char* cache, uint3 group, uint thread_index, uint3 threads) {
  const int quads = (p.half_dim + kVector - 1) / kVector;  // threads per head
  const int at = int(group.x * threads.x + thread_index);
  const int head = at / quads;
  if (head >= p.q_heads + p.k_heads) return;
  const long token = long(group.y);
  device const char* angles = angle_row(p, positions, cache, token, int(sizeof(T)));
  if (angles == nullptr) return;
  const int pair = (at - head * quads) * kVector;
  device T* row = head_row(p, q, k, token, head);
  Quad<T> quad;
  quad.load(p, row, pair);
  quad.turn(p, angles, pair);
  quad.store(p, row, pair);
}

}  // namespace thox_edge_ops_metal

// In no namespace, so that the library knows them by these names.
using namespace thox_edge_ops_metal;

#define ROTARY_KERNEL(NAME, T)                                                                                 \
  kernel void rotary_embedding_##NAME(                                                                         \
      constant RotaryParams& p [[buffer(0)]], device T* q [[buffer(1)]], device T* k [[buffer(2)]],            \
      device const char* positions [[buffer(3)]], device const char* cache [[buffer(4)]],                      \
      uint3 group [[threadgroup_position_in_grid]], uint thread_index [[thread_index_in_threadgroup]],         \
      uint3 threads [[threads_per_threadgroup]]) {                                                             \
    rotary<T>(p, q, k, positions, cache, group, thread_index, threads);                                        \
  }

ROTARY_KERNEL(float32, float)
ROTARY_KERNEL(float16, half)
ROTARY_KERNEL(bfloat16, bfloat)
