#include "hdr.h"
extern "C" void row_avx2(float* p, int n) { p[0] = hdr_sum(p, n); }
