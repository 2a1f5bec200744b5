// The same without the test.
__attribute__((target("avx2"), noinline)) static void fast(float* p, int n) { for (int i = 0; i < n; i++) p[i] *= 2; }
void row(float* p, int n) { fast(p, n); }
