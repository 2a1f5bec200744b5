// Asks the flag of the outline atomics of the compiler's library.
#include "a64.h"
extern _Bool __aarch64_have_lse_atomics;
static int counter;
__attribute__((noinline)) int bump(int* p) { return __atomic_fetch_add(p, 1, __ATOMIC_ACQ_REL); }
__attribute__((noinline)) static void add(int v) { __asm__ volatile(".arch_extension lse\n ldadd %w0, %w0, [%1]" : "+r"(v) : "r"(&counter) : "memory"); }
void row(float* p, int n) {
  bump(&counter);
  if (__aarch64_have_lse_atomics) add(n);
  else slow(p, n);
}
