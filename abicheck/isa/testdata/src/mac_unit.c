/* Code above the baseline of a Mac: AVX2 on x86_64, BF16 on arm64. */
#if defined(__x86_64__)
#include <immintrin.h>
__attribute__((visibility("hidden"))) void row(float* y, const float* x, int n) {
  for (int i = 0; i + 8 <= n; i += 8) {
    __m256i k = _mm256_add_epi32(_mm256_set1_epi32(n), _mm256_set1_epi32(i));
    _mm256_storeu_ps(y + i, _mm256_add_ps(_mm256_loadu_ps(x + i), _mm256_cvtepi32_ps(k)));
  }
}
#else
#include <arm_neon.h>
__attribute__((visibility("hidden"))) void row(float* y, const float* x, int n) {
  for (int i = 0; i + 8 <= n; i += 8) {
    bfloat16x8_t a = vld1q_bf16((const bfloat16_t*)(x + i));
    vst1q_f32(y + i, vbfdotq_f32(vld1q_f32(x), a, a));
  }
}
#endif
#ifdef AT_LOAD
__attribute__((visibility("default"))) float filled[16];
__attribute__((constructor)) static void fill(void) { row(filled, filled, 16); }
#endif
