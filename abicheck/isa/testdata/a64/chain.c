// The answer comes back through two helpers.
#include "a64.h"
__attribute__((noinline)) static unsigned long caps(void) { return getauxval(hwcap); }
__attribute__((noinline)) static int supported(void) { __asm__ volatile(""); return caps() >> 20 & 1; }
void row(float* p, int n) { if (supported()) row_hi(p, n); else slow(p, n); }
