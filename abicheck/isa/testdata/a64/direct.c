// Asks and branches in one function.
#include "a64.h"
void row(float* p, int n) { if (getauxval(hwcap) & asimddp) row_hi(p, n); else slow(p, n); }
