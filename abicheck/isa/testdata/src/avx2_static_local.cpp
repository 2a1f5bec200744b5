// A function-local static of an inline function.
#include <cmath>
#include <cstdlib>
__attribute__((noinline)) inline float factor() { static float f = std::sqrt(float(__builtin_strlen(getenv("HOME") ? getenv("HOME") : "x"))); return f * 2; }
extern "C" void row_avx2(float* p, int n) { for (int i = 0; i < n; i++) p[i] *= factor(); }
