// The answer is handed to a helper as an argument.
#include "a64.h"
__attribute__((noinline)) static void run(float* p, int n, _Bool fast) { if (fast) row_hi(p, n); else slow(p, n); }
void row(float* p, int n) { run(p, n, (getauxval(hwcap) & asimddp) != 0); }
