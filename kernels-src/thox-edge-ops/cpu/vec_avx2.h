// Registers of eight fp32 lanes: AVX2, FMA and F16C.
#pragma once

#include <immintrin.h>

namespace thox_edge_ops_cpu {
namespace {

using Reg = __m256;
constexpr int kRegLanes = 8;

THOX_INLINE Reg reg_splat(float v) { return _mm256_set1_ps(v); }
THOX_INLINE Reg reg_add(Reg a, Reg b) { return _mm256_add_ps(a, b); }
THOX_INLINE Reg reg_sub(Reg a, Reg b) { return _mm256_sub_ps(a, b); }
THOX_INLINE Reg reg_mul(Reg a, Reg b) { return _mm256_mul_ps(a, b); }
THOX_INLINE Reg reg_div(Reg a, Reg b) { return _mm256_div_ps(a, b); }
THOX_INLINE Reg reg_fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_ps(a, b, c); }

// For gate.h.
#define THOX_FUSED 1  // reg_fma rounds once
#define THOX_REG "x"  // a register to an assembler statement
constexpr int kGateRegs = 4;

THOX_INLINE Reg reg_constant(float v) { return reg_splat(v); }

struct ClampConstants {
  Reg low, high;
  THOX_INLINE ClampConstants(float low, float high) : low(reg_splat(low)), high(reg_splat(high)) {}
};
// A NaN stays one: the second operand wins.
THOX_INLINE Reg reg_clamp(Reg a, const ClampConstants& limits) {
  return _mm256_min_ps(limits.high, _mm256_max_ps(limits.low, a));
}

// 2^n, where the last bits of `biased` are 127 + n.
THOX_INLINE Reg reg_power(Reg biased) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(biased), 23));
}

THOX_INLINE Reg reg_load(const float* p) { return _mm256_loadu_ps(p); }

THOX_INLINE Reg reg_load(const Half* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

THOX_INLINE Reg reg_load(const BFloat16* p) {
  const __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
}

THOX_INLINE void reg_store(float* p, Reg a) { _mm256_storeu_ps(p, a); }

THOX_INLINE __m128i half_bits(Reg a) {
  return _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

THOX_INLINE void lanes_store(Half* p, const Reg (&r)[2]) {
  const __m256i bits = _mm256_inserti128_si256(_mm256_castsi128_si256(half_bits(r[0])), half_bits(r[1]), 1);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), bits);
}

// a with its low half rounded away, to nearest even: adding 0x7fff and the bit
// that becomes the last one carries into the upper half as it should, also
// into the exponent. A NaN would turn into infinity, so it only becomes quiet.
THOX_INLINE __m256i number_bits(Reg a) {
  const __m256i bits = _mm256_castps_si256(a);
  const __m256i last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), last);
}

THOX_INLINE __m256i bfloat16_bits(Reg a) {
  const __m256i quiet = _mm256_or_si256(_mm256_castps_si256(a), _mm256_set1_epi32(0x400000));
  const Reg nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
  return _mm256_blendv_epi8(number_bits(a), quiet, _mm256_castps_si256(nan));
}

// The same of two registers, where NaNs cost a branch only.
THOX_INLINE void bfloat16_bits(Reg a, Reg b, __m256i& a_bits, __m256i& b_bits) {
  a_bits = number_bits(a);
  b_bits = number_bits(b);
  if (__builtin_expect(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q)), 0)) {
    a_bits = bfloat16_bits(a);
    b_bits = bfloat16_bits(b);
  }
}

THOX_INLINE void lanes_store(BFloat16* p, const Reg (&r)[2]) {
  __m256i low, high;
  bfloat16_bits(r[0], r[1], low, high);
  // Packing works within 128-bit halves; the permutation puts them in order.
  const __m256i packed = _mm256_packus_epi32(_mm256_srli_epi32(low, 16), _mm256_srli_epi32(high, 16));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}

// Sixteen elements: those with an even index, and the odd ones.
THOX_INLINE void load_even_odd(const BFloat16* p, Reg& even, Reg& odd) {
  const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  even = _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
  odd = _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(-0x10000)));
}

// With kPlainNaNs the lower half of a NaN is empty, so that rounding leaves it alone.
template <bool kPlainNaNs>
THOX_INLINE void store_even_odd(BFloat16* p, const Reg (&even)[2], const Reg (&odd)[2]) {
  bool numbers = true;
  if constexpr (!kPlainNaNs) {  // they cost a branch only
    const Reg nan = _mm256_or_ps(_mm256_cmp_ps(even[0], odd[0], _CMP_UNORD_Q), _mm256_cmp_ps(even[1], odd[1], _CMP_UNORD_Q));
    numbers = __builtin_expect(_mm256_movemask_ps(nan) == 0, 1);
  }
  for (int j = 0; j < 2; ++j) {
    const __m256i low = numbers ? number_bits(even[j]) : bfloat16_bits(even[j]);
    const __m256i high = numbers ? number_bits(odd[j]) : bfloat16_bits(odd[j]);
    const __m256i words = _mm256_blend_epi16(_mm256_srli_epi32(low, 16), high, 0xaa);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 16 * j), words);
  }
}

THOX_INLINE Reg reg_rounded(Reg a, Half) { return _mm256_cvtph_ps(half_bits(a)); }

THOX_INLINE Reg reg_rounded(Reg a, BFloat16) {
  return _mm256_castsi256_ps(_mm256_and_si256(bfloat16_bits(a), _mm256_set1_epi32(-0x10000)));
}

// Lanes 4, then 2, then 1 apart.
THOX_INLINE float reg_lane_sum(Reg a) {
  __m128 v = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  v = _mm_add_ps(v, _mm_movehl_ps(v, v));
  return _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)));
}

THOX_INLINE float scalar_sqrt(float v) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(v))); }

// (a0 b0 a1 b1 ...) in two registers to (a0 a1 ...) and (b0 b1 ...).
THOX_INLINE void split_pairs(Reg low, Reg high, Reg& a, Reg& b) {
  // Per 128-bit half: a0 a1 a4 a5 | a2 a3 a6 a7; then the middle quarters swap.
  const __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0x88));
  const __m256d odd = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0xdd));
  a = _mm256_castpd_ps(_mm256_permute4x64_pd(even, 0xd8));
  b = _mm256_castpd_ps(_mm256_permute4x64_pd(odd, 0xd8));
}

THOX_INLINE void join_pairs(Reg a, Reg b, Reg& low, Reg& high) {
  const Reg x = _mm256_unpacklo_ps(a, b), y = _mm256_unpackhi_ps(a, b);
  low = _mm256_permute2f128_ps(x, y, 0x20);
  high = _mm256_permute2f128_ps(x, y, 0x31);
}

}  // namespace
}  // namespace thox_edge_ops_cpu
