// A resolver that runs the entry before it tests.
#include "a64.h"
static float warm[4];
static void (*pick(uint64_t cap))(float*, int) { row_hi(warm, 4); return cap & asimddp ? row_hi : slow; }
void row(float* p, int n) __attribute__((ifunc("pick")));
