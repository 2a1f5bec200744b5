// A flag that is filled at the first call.
#include "a64.h"
static int have = -1;
void row(float* p, int n) {
  if (have < 0) have = (getauxval(hwcap) & asimddp) != 0;
  if (have) row_hi(p, n); else slow(p, n);
}
