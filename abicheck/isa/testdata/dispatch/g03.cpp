// An int that a constructor sets.
#include "dispatch.h"
static int level;
__attribute__((constructor)) static void detect() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) level = 2;
  else if (__builtin_cpu_supports("sse4.2")) level = 1;
}
extern "C" void row(float* p, int n) {
  if (level >= 2) row_avx2(p, n);
  else row_slow(p, n);
}
