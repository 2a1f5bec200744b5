#include <immintrin.h>
template <class T> __attribute__((noinline)) T hadd(const T* p) { __m128 v = _mm_loadu_ps(p); return _mm_cvtss_f32(_mm_hadd_ps(v, v)); }
extern "C" void row_sse(float* p, int) { p[0] = hadd(p); }
