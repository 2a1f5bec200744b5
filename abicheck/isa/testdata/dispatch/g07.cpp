// The test is three calls away.
#include "dispatch.h"
NOINLINE static int raw() { return cpu_has_avx2() ? 7 : 3; }
NOINLINE static bool usable(int bits) { return bits & 4; }
NOINLINE static bool ready() { return usable(raw()); }
extern "C" void row(float* p, int n) {
  if (ready()) row_avx2(p, n);
  else row_slow(p, n);
}
