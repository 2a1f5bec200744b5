// A unit whose table holds wrappers that are free of AVX themselves.
#include <immintrin.h>
namespace {
__attribute__((noinline)) void heavy(float* p, long n) { for (long i = 0; i < n; i++) p[i] = p[i] * 2 + 1; }
void wrap(float* p, int n) { if (n > 0) heavy(p, n); }
void (*const volatile table[])(float*, int) = {wrap};
}
extern "C" __attribute__((visibility("hidden"))) void row_avx2(float* p, int n) { _mm256_zeroupper(); table[0](p, n); }
