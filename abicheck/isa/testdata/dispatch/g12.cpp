// The kernel's word for it. No kernel sets this bit on x86-64, so the slow
// path runs everywhere; the shape is what counts.
#include <sys/auxv.h>
#include "dispatch.h"
static bool usable() { return getauxval(AT_HWCAP2) >> 40 & 1; }
extern "C" void row(float* p, int n) {
  if (usable()) row_avx2(p, n);
  else row_slow(p, n);
}
