// A static function with a target attribute behind a test, baseline flags.
#include "a64.h"
__attribute__((target("arch=armv8.1-a"), noinline)) static void fast(float* p, int n) { p[0] = __atomic_add_fetch(&n, 1, __ATOMIC_ACQ_REL); }
void row(float* p, int n) { if (getauxval(hwcap) & 1 << 8) fast(p, n); else slow(p, n); }
