// An IFUNC resolver that tests its argument, which is AT_HWCAP.
#include "a64.h"
static void (*pick(uint64_t cap))(float*, int) { return cap & asimddp ? row_hi : slow; }
void row(float* p, int n) __attribute__((ifunc("pick")));
