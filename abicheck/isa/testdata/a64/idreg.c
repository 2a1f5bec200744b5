// Reads the identification register; the kernel answers.
#include "a64.h"
static int dotprod(void) {
  uint64_t v;
  __asm__ volatile("mrs %0, s3_0_c0_c6_0" : "=r"(v));
  return (v >> 44 & 15) >= 1;
}
void row(float* p, int n) { if (dotprod()) row_hi(p, n); else slow(p, n); }
