// The outcome is a parameter.
#include "dispatch.h"
NOINLINE static void run(float* p, int n, bool fast) {
  if (fast) row_avx2(p, n);
  else row_slow(p, n);
}
extern "C" void row(float* p, int n) { run(p, n, cpu_has_avx2()); }
