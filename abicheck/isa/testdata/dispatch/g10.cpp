// A callback that captured the outcome of the test.
#include "dispatch.h"
namespace {
template <class F> NOINLINE void each(float* p, int n, const F& f) {
  for (int i = 0; i < n; i += 8) f(p + i, n - i < 8 ? n - i : 8);
}
}
extern "C" void row(float* p, int n) {
  const bool ok = cpu_has_avx2();
  each(p, n, [ok](float* q, int m) {
    if (ok) row_avx2(q, m);
    else row_slow(q, m);
  });
}
