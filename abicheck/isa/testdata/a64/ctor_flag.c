// A flag that a constructor fills, beside one that is no test.
#include "a64.h"
static char verbose, have;
__attribute__((constructor)) static void init(void) { have = getauxval(hwcap) >> 20 & 1; verbose = 0; }
void row(float* p, int n) { if (have) row_hi(p, n); else if (!verbose) slow(p, n); }
