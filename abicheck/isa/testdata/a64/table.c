// A table of pointers that a test fills, and a wrapper in it.
#include "a64.h"
static void wrap(float* p, int n) { if (n > 0) row_hi(p, n); }
static void (*table[2])(float*, int) = {slow, slow};
static int ready;
static void fill(void) {
  unsigned long f = getauxval(hwcap);
  if (f & asimddp) { table[0] = row_hi; table[1] = wrap; }
  ready = 1;
}
void row(float* p, int n) { if (!ready) fill(); table[n & 1](p, n); }
