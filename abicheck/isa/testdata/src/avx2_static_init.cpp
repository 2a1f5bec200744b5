// A vector constant that is computed when the library is loaded.
#include <immintrin.h>
static volatile float seed = 2;
static const __m256 K = _mm256_set1_ps(seed);
extern "C" void row_avx2(float* p, int) { _mm256_storeu_ps(p, K); }
