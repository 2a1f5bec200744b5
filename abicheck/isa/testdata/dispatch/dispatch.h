// What every way of dispatch below shares: the unit's entry, the slow path,
// and the symbol that the library exports.
#pragma once
#define HIDDEN __attribute__((visibility("hidden")))
#define NOINLINE __attribute__((noinline))
extern "C" HIDDEN void row_avx2(float* p, int n);
NOINLINE static void row_slow(float* p, int n) {
  for (int i = 0; i < n; i++) p[i] = p[i] * p[i] + 1;
}
static inline bool cpu_has_avx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") != 0;
}
