// A pointer that a constructor sets.
#include "a64.h"
static void (*impl)(float*, int) = slow;
__attribute__((constructor)) static void init(void) { if (getauxval(hwcap) & asimddp) impl = row_hi; }
void row(float* p, int n) { impl(p, n); }
