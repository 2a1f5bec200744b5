// As outparam.c, with a local of the caller.
#include "a64.h"
struct cpu { int dot, mm; };
__attribute__((noinline)) static void detect(struct cpu* c) {
  unsigned long a = getauxval(hwcap), b = getauxval(hwcap2);
  c->dot = a >> 20 & 1;
  c->mm = b >> 13 & 1;
}
void row(float* p, int n) { struct cpu c; detect(&c); if (c.dot) row_hi(p, n); else slow(p, n); }
