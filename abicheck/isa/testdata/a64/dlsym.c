// As Rust's standard library asks: getauxval is looked up.
#include "a64.h"
void* dlsym(void*, const char*);
static int have = -1;
void row(float* p, int n) {
  if (have < 0) {
    unsigned long (*f)(unsigned long) = (unsigned long (*)(unsigned long))dlsym(0, "getauxval");
    have = f && f(hwcap) >> 20 & 1;
  }
  if (have) row_hi(p, n); else slow(p, n);
}
