// A resolver that reads AT_HWCAP2 from its second argument, and does work
// above the baseline behind the test.
#include "a64.h"
struct arg { unsigned long size, cap, cap2; };
static float warm[4];
static void (*pick(uint64_t cap, const struct arg* a))(float*, int) {
  if (cap >> 62 & 1 && a->cap2 & i8mm) { row_hi(warm, 4); return row_hi; }
  return slow;
}
void row(float* p, int n) __attribute__((ifunc("pick")));
