// Registers of four fp32 lanes: SSE2, which every x86-64 CPU has.
#pragma once

#include <emmintrin.h>

namespace thox_edge_ops_cpu {
namespace {

using Reg = __m128;
constexpr int kRegLanes = 4;

THOX_INLINE Reg reg_splat(float v) { return _mm_set1_ps(v); }
THOX_INLINE Reg reg_add(Reg a, Reg b) { return _mm_add_ps(a, b); }
THOX_INLINE Reg reg_sub(Reg a, Reg b) { return _mm_sub_ps(a, b); }
THOX_INLINE Reg reg_mul(Reg a, Reg b) { return _mm_mul_ps(a, b); }
THOX_INLINE Reg reg_div(Reg a, Reg b) { return _mm_div_ps(a, b); }

// Not fused: two roundings.
THOX_INLINE Reg reg_fma(Reg a, Reg b, Reg c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }

// For gate.h.
#define THOX_FUSED 0  // reg_fma rounds once
#define THOX_REG "x"  // a register to an assembler statement
constexpr int kGateRegs = 4;

THOX_INLINE Reg reg_constant(float v) { return reg_splat(v); }

struct ClampConstants {
  Reg low, high;
  THOX_INLINE ClampConstants(float low, float high) : low(reg_splat(low)), high(reg_splat(high)) {}
};
// A NaN stays one: the second operand wins.
THOX_INLINE Reg reg_clamp(Reg a, const ClampConstants& limits) {
  return _mm_min_ps(limits.high, _mm_max_ps(limits.low, a));
}

THOX_INLINE Reg reg_and(Reg a, Reg b) { return _mm_and_ps(a, b); }
THOX_INLINE Reg reg_or(Reg a, Reg b) { return _mm_or_ps(a, b); }

// Whether numbers all have `bits` where `mask` is set: `any` has the bits that
// any of them has, `common` those that all have.
THOX_INLINE bool have_bits(Reg any, Reg common, int bits, int mask) {
  const __m128i wanted = _mm_set1_epi32(bits), where = _mm_set1_epi32(mask);
  const __m128i wrong = _mm_or_si128(_mm_xor_si128(_mm_castps_si128(any), wanted), _mm_xor_si128(_mm_castps_si128(common), wanted));
  return _mm_movemask_epi8(_mm_cmpeq_epi32(_mm_and_si128(wrong, where), _mm_setzero_si128())) == 0xffff;
}

// 2^n, where the last bits of `biased` are 127 + n.
THOX_INLINE Reg reg_power(Reg biased) {
  return _mm_castsi128_ps(_mm_slli_epi32(_mm_castps_si128(biased), 23));
}

THOX_INLINE Reg reg_load(const float* p) { return _mm_loadu_ps(p); }

// Four 16-bit elements, each in the low half of its lane.
THOX_INLINE __m128i load_words(const void* p) {
  return _mm_unpacklo_epi16(_mm_loadl_epi64(static_cast<const __m128i*>(p)), _mm_setzero_si128());
}

THOX_INLINE Reg half_value(__m128i h) {
  const __m128i magnitude = _mm_slli_epi32(_mm_and_si128(h, _mm_set1_epi32(0x7fff)), 13);
  const __m128i sign = _mm_slli_epi32(_mm_and_si128(h, _mm_set1_epi32(0x8000)), 16);
  // The exponent's bias differs by 112; a product corrects it for subnormal
  // numbers as well, but infinities and NaNs need their exponent set.
  const Reg scaled = _mm_mul_ps(_mm_castsi128_ps(magnitude), _mm_castsi128_ps(_mm_set1_epi32((127 + 112) << 23)));
  const __m128i special = _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7bff << 13));
  const __m128i exponent = _mm_and_si128(special, _mm_set1_epi32(0x7f800000));
  return _mm_or_ps(scaled, _mm_castsi128_ps(_mm_or_si128(sign, exponent)));
}

THOX_INLINE Reg reg_load(const Half* p) { return half_value(load_words(p)); }

THOX_INLINE Reg reg_load(const BFloat16* p) {
  return _mm_castsi128_ps(_mm_slli_epi32(load_words(p), 16));
}

THOX_INLINE void reg_store(float* p, Reg a) { _mm_storeu_ps(p, a); }

THOX_INLINE __m128i choose(__m128i mask, __m128i yes, __m128i no) {
  return _mm_or_si128(_mm_and_si128(mask, yes), _mm_andnot_si128(mask, no));
}

// The fp16 bits of each lane, rounded to nearest even, in its low half.
THOX_INLINE __m128i half_bits(Reg a) {
  const __m128i bits = _mm_castps_si128(a);
  const __m128i magnitude = _mm_and_si128(bits, _mm_set1_epi32(0x7fffffff));
  // Normal numbers: correct the bias, then round away 13 bits of the fraction.
  const __m128i last = _mm_and_si128(_mm_srli_epi32(bits, 13), _mm_set1_epi32(1));
  const __m128i bias = _mm_set1_epi32(0xfff - (112 << 23));
  const __m128i normal = _mm_srli_epi32(_mm_add_epi32(_mm_add_epi32(magnitude, bias), last), 13);
  // Subnormal ones: the last bit of 0.5 weighs as much as theirs, so that the
  // addition rounds them.
  const __m128i half = _mm_castps_si128(reg_splat(0.5f));
  const __m128i tiny = _mm_sub_epi32(
      _mm_castps_si128(_mm_add_ps(_mm_castsi128_ps(magnitude), _mm_castsi128_ps(half))), half);
  // From 65520 on: infinity. NaN: quiet, with the leading bits of its payload.
  const __m128i is_tiny = _mm_cmplt_epi32(magnitude, _mm_set1_epi32(113 << 23));
  const __m128i is_huge = _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x477fefff));
  const __m128i is_nan = _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7f800000));
  const __m128i payload = _mm_and_si128(_mm_srli_epi32(magnitude, 13), _mm_set1_epi32(0x1ff));
  const __m128i special =
      _mm_or_si128(_mm_set1_epi32(0x7c00), _mm_and_si128(is_nan, _mm_or_si128(payload, _mm_set1_epi32(0x200))));
  const __m128i value = choose(is_huge, special, choose(is_tiny, tiny, normal));
  return _mm_or_si128(value, _mm_and_si128(_mm_srli_epi32(bits, 16), _mm_set1_epi32(0x8000)));
}

// a with its low half rounded away, to nearest even: adding 0x7fff and the bit
// that becomes the last one carries into the upper half as it should, also
// into the exponent. A NaN would turn into infinity, so it only becomes quiet.
THOX_INLINE __m128i number_bits(Reg a) {
  const __m128i bits = _mm_castps_si128(a);
  const __m128i last = _mm_and_si128(_mm_srli_epi32(bits, 16), _mm_set1_epi32(1));
  return _mm_add_epi32(_mm_add_epi32(bits, _mm_set1_epi32(0x7fff)), last);
}

THOX_INLINE __m128i bfloat16_bits(Reg a) {
  const __m128i quiet = _mm_or_si128(_mm_castps_si128(a), _mm_set1_epi32(0x400000));
  return choose(_mm_castps_si128(_mm_cmpunord_ps(a, a)), quiet, number_bits(a));
}

// The same of two registers, where NaNs cost a branch only.
THOX_INLINE void bfloat16_bits(Reg a, Reg b, __m128i& a_bits, __m128i& b_bits) {
  a_bits = number_bits(a);
  b_bits = number_bits(b);
  if (__builtin_expect(_mm_movemask_ps(_mm_cmpunord_ps(a, b)), 0)) {
    a_bits = bfloat16_bits(a);
    b_bits = bfloat16_bits(b);
  }
}

// The low halves of eight lanes. SSE2 packs with signed saturation only, so
// they are sign-extended first.
THOX_INLINE void store_words(void* p, __m128i low, __m128i high) {
  low = _mm_srai_epi32(_mm_slli_epi32(low, 16), 16);
  high = _mm_srai_epi32(_mm_slli_epi32(high, 16), 16);
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm_packs_epi32(low, high));
}

THOX_INLINE void lanes_store(Half* p, const Reg (&r)[4]) {
  store_words(p, half_bits(r[0]), half_bits(r[1]));
  store_words(p + 8, half_bits(r[2]), half_bits(r[3]));
}

THOX_INLINE void lanes_store(BFloat16* p, const Reg (&r)[4]) {
  for (int j = 0; j < 4; j += 2) {
    __m128i low, high;
    bfloat16_bits(r[j], r[j + 1], low, high);
    const __m128i words = _mm_packs_epi32(_mm_srai_epi32(low, 16), _mm_srai_epi32(high, 16));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 4 * j), words);
  }
}

// Eight elements: those with an even index, and the odd ones.
THOX_INLINE void load_even_odd(const BFloat16* p, Reg& even, Reg& odd) {
  const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  even = _mm_castsi128_ps(_mm_slli_epi32(words, 16));
  odd = _mm_castsi128_ps(_mm_and_si128(words, _mm_set1_epi32(-0x10000)));
}

// With kPlainNaNs the lower half of a NaN is empty, so that rounding leaves it alone.
template <bool kPlainNaNs>
THOX_INLINE void store_even_odd(BFloat16* p, const Reg (&even)[4], const Reg (&odd)[4]) {
  bool numbers = true;
  if constexpr (!kPlainNaNs) {  // they cost a branch only
    const Reg nan = _mm_or_ps(_mm_or_ps(_mm_cmpunord_ps(even[0], odd[0]), _mm_cmpunord_ps(even[1], odd[1])),
                              _mm_or_ps(_mm_cmpunord_ps(even[2], odd[2]), _mm_cmpunord_ps(even[3], odd[3])));
    numbers = __builtin_expect(_mm_movemask_ps(nan) == 0, 1);
  }
  for (int j = 0; j < 4; ++j) {
    const __m128i low = numbers ? number_bits(even[j]) : bfloat16_bits(even[j]);
    const __m128i high = _mm_and_si128(numbers ? number_bits(odd[j]) : bfloat16_bits(odd[j]), _mm_set1_epi32(-0x10000));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8 * j), _mm_or_si128(_mm_srli_epi32(low, 16), high));
  }
}

THOX_INLINE Reg reg_rounded(Reg a, Half) { return half_value(half_bits(a)); }

THOX_INLINE Reg reg_rounded(Reg a, BFloat16) {
  return _mm_castsi128_ps(_mm_and_si128(bfloat16_bits(a), _mm_set1_epi32(-0x10000)));
}

// Lanes 2, then 1 apart.
THOX_INLINE float reg_lane_sum(Reg v) {
  v = _mm_add_ps(v, _mm_movehl_ps(v, v));
  return _mm_cvtss_f32(_mm_add_ss(v, _mm_shuffle_ps(v, v, 0x55)));
}

THOX_INLINE float scalar_sqrt(float v) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(v))); }

// (a0 b0 a1 b1 ...) in two registers to (a0 a1 ...) and (b0 b1 ...).
THOX_INLINE void split_pairs(Reg low, Reg high, Reg& a, Reg& b) {
  a = _mm_shuffle_ps(low, high, 0x88);
  b = _mm_shuffle_ps(low, high, 0xdd);
}

THOX_INLINE void join_pairs(Reg a, Reg b, Reg& low, Reg& high) {
  low = _mm_unpacklo_ps(a, b);
  high = _mm_unpackhi_ps(a, b);
}

}  // namespace
}  // namespace thox_edge_ops_cpu
