// An acquire load, which RCPC has an instruction for.
#include "hdr.h"
HIDDEN void row_hi(float* p, int n) { p[0] = __atomic_load_n(&n, __ATOMIC_ACQUIRE); __asm__ volatile("ldapr %w0, [%1]" : "=r"(n) : "r"(p)); }
