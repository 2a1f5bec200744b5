// The test stands in a loop.
#include "dispatch.h"
extern "C" void row(float* p, int n) {
  for (int i = 0; i < n; i += 8) {
    int m = n - i < 8 ? n - i : 8;
    if (m == 8 && cpu_has_avx2()) row_avx2(p + i, m);
    else row_slow(p + i, m);
  }
}
