// SiLU and tanh-GELU gates: out = act(gate) * up, one vector per thread.

#include "common.h"

namespace thox_edge_ops_metal {

// Both forms divide by 1 + e^-y, which is finite or infinity, never NaN, for
// every finite x: a large negative x gives -0, a large positive one x. A
// tanh written with e^2y would give NaN there.
struct Silu {
  static inline float of(float x) { return x / (1.0f + precise::exp(-x)); }
};

struct GeluTanh {
  static inline float of(float x) {
    // (1 + tanh y) / 2 = 1 / (1 + e^-2y)
    const float y = 0.7978845608028654f * (x + 0.044715f * x * x * x);
    return x / (1.0f + precise::exp(-2.0f * y));
  }
};

template <typename T, typename Act>
inline void gate(constant GateParams& p, device T* out, device const T* x, uint3 group, uint thread_index,
                 uint3 threads) {
  const int first = int(group.x * threads.x + thread_index) * kVector;
  if (first >= p.cols) return;
  const bool aligned = p.aligned != 0;
  x += long(group.y) * p.x_stride;
  out += long(group.y) * p.out_stride;
  vec<T, 4> g = load4(x, first, p.cols, aligned);
  const vec<T, 4> u = load4(x + p.cols, first, p.cols, aligned);
  for (int i = 0; i < 4; ++i) g[i] = T(Act::of(float(g[i])) * float(u[i]));
  store4(out, first, p.cols, aligned, g);
}

}  // namespace thox_edge_ops_metal

// In no namespace, so that the library knows them by these names.
using namespace thox_edge_ops_metal;

#define GATE_KERNEL(NAME, T, ACT)                                                                          \
  kernel void NAME(constant GateParams& p [[buffer(0)]], device T* out [[buffer(1)]],                      \
                   device const T* x [[buffer(2)]], uint3 group [[threadgroup_position_in_grid]],          \
                   uint thread_index [[thread_index_in_threadgroup]],                                      \
                   uint3 threads [[threads_per_threadgroup]]) {                                            \
    gate<T, ACT>(p, out, x, group, thread_index, threads);                                                 \
  }

GATE_KERNEL(silu_and_mul_float32, float, Silu)
GATE_KERNEL(silu_and_mul_float16, half, Silu)
GATE_KERNEL(silu_and_mul_bfloat16, bfloat, Silu)
GATE_KERNEL(gelu_tanh_and_mul_float32, float, GeluTanh)
GATE_KERNEL(gelu_tanh_and_mul_float16, half, GeluTanh)
GATE_KERNEL(gelu_tanh_and_mul_bfloat16, bfloat, GeluTanh)
