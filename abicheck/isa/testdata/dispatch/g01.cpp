// A namespace-scope bool that an initialiser sets.
#include "dispatch.h"
static const bool ok = cpu_has_avx2();
extern "C" void row(float* p, int n) {
  if (ok) row_avx2(p, n);
  else row_slow(p, n);
}
