// Dispatch by a cached flag.
extern __attribute__((visibility("hidden"))) void row_avx2(float* p, int n);
static int have = -1;
void row(float* p, int n) {
  if (have < 0) { __builtin_cpu_init(); have = __builtin_cpu_supports("avx2") != 0; }
  if (have) row_avx2(p, n); else for (int i = 0; i < n; i++) p[i] += p[i];
}
