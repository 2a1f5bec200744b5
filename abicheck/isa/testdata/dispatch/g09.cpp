// A singleton that holds several facts.
#include "dispatch.h"
namespace {
struct Cpu {
  bool sse42, avx2, fma;
  Cpu() {
    __builtin_cpu_init();
    sse42 = __builtin_cpu_supports("sse4.2");
    avx2 = __builtin_cpu_supports("avx2");
    fma = __builtin_cpu_supports("fma");
  }
};
NOINLINE const Cpu& cpu() {
  static const Cpu c;
  return c;
}
}
extern "C" void row(float* p, int n) {
  const Cpu& c = cpu();
  if (c.avx2 && c.fma) row_avx2(p, n);
  else row_slow(p, n);
}
