// A template picks the implementation: imp<2> calls the unit untested.
#include "dispatch.h"
#ifdef EXPORTED
#define HIDE
#else
#define HIDE HIDDEN
#endif
template <int level> NOINLINE HIDE void imp(float* p, int n);
template <> NOINLINE HIDE void imp<0>(float* p, int n) { row_slow(p, n); }
template <> NOINLINE HIDE void imp<2>(float* p, int n) {
  row_avx2(p, n);
  p[0] += 1;
}
extern "C" void row(float* p, int n) {
  if (cpu_has_avx2()) imp<2>(p, n);
  else imp<0>(p, n);
}
