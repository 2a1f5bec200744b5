// A well-made ISA unit: helpers in an anonymous namespace, one hidden entry.
#include <immintrin.h>
namespace {
struct Acc { __m256 v; };
template <class T> T twice(T x) { return x + x; }
inline Acc add(Acc a, const float* p) { return {_mm256_add_ps(a.v, _mm256_loadu_ps(p))}; }
}
extern "C" __attribute__((visibility("hidden"))) void row_avx2(float* p, int n) {
  Acc a{_mm256_setzero_ps()};
  for (int i = 0; i + 8 <= n; i += 8) a = add(a, p + i);
  _mm256_storeu_ps(p, a.v);
  p[0] = twice(p[0]);
}
