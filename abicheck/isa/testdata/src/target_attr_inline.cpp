__attribute__((target("avx2"), noinline)) inline void fast(float* p, int n) { for (int i = 0; i < n; i++) p[i] *= 2; }
extern "C" void row(float* p, int n) { if (__builtin_cpu_supports("avx2")) fast(p, n); }
