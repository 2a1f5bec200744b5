// Two features at once, and a test in a loop.
#include "a64.h"
void row(float* p, int n) {
  unsigned long a = getauxval(hwcap), b = getauxval(hwcap2);
  for (int i = 0; i < n; i += 8) {
    if (a & asimddp && b & i8mm && n > 8) row_hi(p + i, 8);
    else slow(p + i, 8);
  }
}
