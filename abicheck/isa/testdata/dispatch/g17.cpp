// A defect: the arms are swapped.
#include "dispatch.h"
extern "C" void row(float* p, int n) {
  if (!cpu_has_avx2()) row_avx2(p, n);
  else row_slow(p, n);
}
