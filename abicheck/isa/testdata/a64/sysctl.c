// How it is asked on macOS: the answer comes through a pointer.
#include "a64.h"
int sysctlbyname(const char*, void*, size_t*, void*, size_t);
void row(float* p, int n) {
  int have = 0;
  size_t size = sizeof have;
  if (sysctlbyname("hw.optional.arm.FEAT_DotProd", &have, &size, 0, 0) == 0 && have) row_hi(p, n); else slow(p, n);
}
