// Templates and a virtual class, all in an anonymous namespace.
#include <immintrin.h>
namespace {
struct Op { virtual ~Op() = default; virtual float run(float x) const = 0; };
template <int N> struct Mul : Op { float run(float x) const override { return x * N + 0.5f; } };
}
extern "C" __attribute__((visibility("hidden"))) void row_avx2(float* p, int n) {
  Mul<3> m; Op& op = m;
  for (int i = 0; i < n; i++) p[i] = op.run(p[i]);
}
