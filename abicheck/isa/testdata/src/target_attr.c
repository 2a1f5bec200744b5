// A static function with a target attribute behind a test, baseline flags.
__attribute__((target("avx2"), noinline)) static void fast(float* p, int n) { for (int i = 0; i < n; i++) p[i] *= 2; }
__attribute__((noinline)) static void slow(float* p, int n) { for (int i = 0; i < n; i++) p[i] += p[i]; }
void row(float* p, int n) { if (__builtin_cpu_supports("avx2")) fast(p, n); else slow(p, n); }
