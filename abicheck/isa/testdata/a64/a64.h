// What the dispatch fixtures share: an entry above the baseline, and a slow
// path.
#pragma once
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
__attribute__((visibility("hidden"))) void row_hi(float* p, int n);
__attribute__((visibility("default"))) void row(float* p, int n);
unsigned long getauxval(unsigned long);
#ifdef __cplusplus
}
#endif
enum { hwcap = 16, hwcap2 = 26, asimddp = 1 << 20, i8mm = 1 << 13 };
__attribute__((noinline)) static void slow(float* p, int n) { for (int i = 0; i < n; i++) p[i] += p[i]; }
