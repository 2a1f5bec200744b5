// A defect: it tests, reports, and calls the unit anyway.
#include <stdio.h>
#include "dispatch.h"
extern "C" void row(float* p, int n) {
  if (!cpu_has_avx2()) fprintf(stderr, "slow processor\n");
  row_avx2(p, n);
}
