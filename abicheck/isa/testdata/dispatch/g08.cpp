// cpuid by hand, with the state that the operating system keeps.
#include <cpuid.h>
#include "dispatch.h"
NOINLINE static bool has_avx2() {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return false;
  unsigned lo, hi;
  __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  if ((lo & 6) != 6) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
}
extern "C" void row(float* p, int n) {
  static const bool ok = has_avx2();
  if (ok) row_avx2(p, n);
  else row_slow(p, n);
}
