// What compiler-rt and libgcc 14 have for it.
#include "a64.h"
__attribute__((visibility("hidden"))) struct { unsigned long long features; } __aarch64_cpu_features;
__attribute__((visibility("hidden"))) void __init_cpu_features_resolver(unsigned long cap, const void* arg) {
  (void)arg;
  if (__aarch64_cpu_features.features) return;
  unsigned long long f = 1ull << 58;
  if (cap & asimddp) f |= 1ull << 4;
  if (cap & 1ul << 22) f |= 1ull << 30;
  __aarch64_cpu_features.features = f;
}
