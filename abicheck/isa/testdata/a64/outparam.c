// The answer is written through a pointer.
#include "a64.h"
struct cpu { int dot, mm; };
static struct cpu cpu;
__attribute__((noinline)) static void detect(struct cpu* c) {
  unsigned long a = getauxval(hwcap), b = getauxval(hwcap2);
  c->dot = a >> 20 & 1;
  c->mm = b >> 13 & 1;
}
__attribute__((constructor)) static void init(void) { detect(&cpu); }
void row(float* p, int n) { if (cpu.dot) row_hi(p, n); else slow(p, n); }
