/* Baseline code that calls the unit: behind a test of the processor, or bare. */
extern void row(float*, const float*, int);
extern int sysctlbyname(const char*, void*, unsigned long*, void*, unsigned long);

#ifndef BARE
static int has(const char* feature) {
  int v = 0;
  unsigned long n = sizeof v;
  return sysctlbyname(feature, &v, &n, 0, 0) == 0 && v;
}
#endif

__attribute__((visibility("default"))) void op(float* y, const float* x, int n) {
#ifndef BARE
#if defined(__x86_64__)
  if (!has("hw.optional.avx2_0")) {
#else
  if (!has("hw.optional.arm.FEAT_BF16")) {
#endif
    for (int i = 0; i < n; i++) y[i] = x[i] + 1;
    return;
  }
#endif
  row(y, x, n);
}

/* A pointer in data, which the linker or dyld has to adjust. */
__attribute__((visibility("default"))) void (*table_of_ops[])(float*, const float*, int) = {op};
