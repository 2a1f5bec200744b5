// A function pointer that the first call sets.
#include "dispatch.h"
static void (*chosen)(float*, int);
extern "C" void row(float* p, int n) {
  if (!chosen) chosen = cpu_has_avx2() ? row_avx2 : row_slow;
  chosen(p, n);
}
