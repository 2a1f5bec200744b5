// Registers of sixteen fp32 lanes: AVX-512 F, BW, VL and DQ; where the unit is
// compiled for BF16 too, the CPU rounds to bf16.
#pragma once

#include <immintrin.h>

namespace thox_edge_ops_cpu {
namespace {

using Reg = __m512;
constexpr int kRegLanes = 16;

THOX_INLINE Reg reg_splat(float v) { return _mm512_set1_ps(v); }
THOX_INLINE Reg reg_add(Reg a, Reg b) { return _mm512_add_ps(a, b); }
THOX_INLINE Reg reg_sub(Reg a, Reg b) { return _mm512_sub_ps(a, b); }
THOX_INLINE Reg reg_mul(Reg a, Reg b) { return _mm512_mul_ps(a, b); }
THOX_INLINE Reg reg_div(Reg a, Reg b) { return _mm512_div_ps(a, b); }
THOX_INLINE Reg reg_fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_ps(a, b, c); }

// For gate.h.
#define THOX_FUSED 1  // reg_fma rounds once
#define THOX_REG "v"  // a register to an assembler statement
constexpr int kGateRegs = 2;

// A constant that stays in its register: the compiler would rather load it
// again and again, which is more loads than the CPU does meanwhile.
THOX_INLINE Reg reg_constant(float v) {
  Reg r = reg_splat(v);
  __asm__("" : "+v"(r));
  return r;
}

// One operation, as the limits reach as far on both sides. A NaN becomes one of
// them: whoever uses the result multiplies it by the NaN.
struct ClampConstants {
  Reg magnitude;
  THOX_INLINE ClampConstants(float, float high) : magnitude(reg_constant(high)) {}
};
THOX_INLINE Reg reg_clamp(Reg a, const ClampConstants& limits) {
  constexpr int kSmallerMagnitudeWithSignOfFirst = 2;
  return _mm512_range_ps(a, limits.magnitude, kSmallerMagnitudeWithSignOfFirst);
}

// 2^n, where the last bits of `biased` are 127 + n.
THOX_INLINE Reg reg_power(Reg biased) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(biased), 23));
}

THOX_INLINE Reg from_bits(__m256i bits, Half) { return _mm512_cvtph_ps(bits); }

THOX_INLINE Reg from_bits(__m256i bits, BFloat16) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

THOX_INLINE __m256i to_bits(Reg a, Half) {
  return _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

// a with its low half rounded away, to nearest even: adding 0x7fff and the bit
// that becomes the last one carries into the upper half as it should, also
// into the exponent.
THOX_INLINE __m512i number_bits(Reg a) {
  const __m512i bits = _mm512_castps_si512(a);
  const __m512i last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  return _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), last);
}

// A NaN would turn into infinity, so it only becomes quiet.
THOX_INLINE __m512i bfloat16_bits(Reg a) {
  const __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(number_bits(a), nan, _mm512_castps_si512(a), _mm512_set1_epi32(0x400000));
}

constexpr int kSubnormal = 0x20;  // of fpclass

THOX_INLINE __m256i to_bits(Reg a, BFloat16) {
#ifdef __AVX512BF16__
  // The instruction takes a subnormal number for 0, whatever the MXCSR says.
  if (__builtin_expect(_mm512_fpclass_ps_mask(a, kSubnormal) == 0, 1)) {
    return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(a));
  }
#endif
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(bfloat16_bits(a), 16));
}

THOX_INLINE Reg reg_load(const float* p) { return _mm512_loadu_ps(p); }
THOX_INLINE void reg_store(float* p, Reg a) { _mm512_storeu_ps(p, a); }

template <class T>
THOX_INLINE Reg reg_load(const T* p) {
  return from_bits(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), T());
}

template <class T>
THOX_INLINE void lanes_store(T* p, const Reg (&r)[1]) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_bits(r[0], T()));
}

// 32 elements: those with an even index, and the odd ones.
THOX_INLINE void load_even_odd(const BFloat16* p, Reg& even, Reg& odd) {
  const __m512i words = _mm512_loadu_si512(p);
  even = _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
  odd = _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(-0x10000)));
}

// With kPlainNaNs the lower half of a NaN is empty, so that rounding leaves it alone.
template <bool kPlainNaNs>
THOX_INLINE void store_even_odd(BFloat16* p, const Reg (&evens)[1], const Reg (&odds)[1]) {
  const Reg even = evens[0], odd = odds[0];
#ifdef __AVX512BF16__
  if (__builtin_expect((_mm512_fpclass_ps_mask(even, kSubnormal) | _mm512_fpclass_ps_mask(odd, kSubnormal)) == 0, 1)) {
    const __m512i halves = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(odd, even));
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    _mm512_storeu_si512(p, _mm512_permutexvar_epi16(order, halves));
    return;
  }
#endif
  const __m512i low = kPlainNaNs ? number_bits(even) : bfloat16_bits(even);
  const __m512i high = kPlainNaNs ? number_bits(odd) : bfloat16_bits(odd);
  _mm512_storeu_si512(p, _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(low, 16), high));
}

THOX_INLINE Reg reg_rounded(Reg a, Half) { return from_bits(to_bits(a, Half()), Half()); }

THOX_INLINE Reg reg_rounded(Reg a, BFloat16) {
#ifdef __AVX512BF16__
  return from_bits(to_bits(a, BFloat16()), BFloat16());
#else
  return _mm512_castsi512_ps(_mm512_and_si512(bfloat16_bits(a), _mm512_set1_epi32(-0x10000)));
#endif
}

// The first n < 16 elements; the other lanes are 0.
#define THOX_MASKED_TAILS

THOX_INLINE __mmask16 first_lanes(int n) { return __mmask16((1u << n) - 1); }

THOX_INLINE Reg reg_load_tail(const float* p, int n) { return _mm512_maskz_loadu_ps(first_lanes(n), p); }
THOX_INLINE void reg_store_tail(float* p, Reg a, int n) { _mm512_mask_storeu_ps(p, first_lanes(n), a); }

template <class T>
THOX_INLINE Reg reg_load_tail(const T* p, int n) {
  return from_bits(_mm256_maskz_loadu_epi16(first_lanes(n), p), T());
}

template <class T>
THOX_INLINE void reg_store_tail(T* p, Reg a, int n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), to_bits(a, T()));
}

// Lanes 8, then 4, 2 and 1 apart.
THOX_INLINE float reg_lane_sum(Reg a) {
  const __m256 w = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  __m128 v = _mm_add_ps(_mm256_castps256_ps128(w), _mm256_extractf128_ps(w, 1));
  v = _mm_add_ps(v, _mm_movehl_ps(v, v));
  return _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)));
}

THOX_INLINE float scalar_sqrt(float v) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(v))); }

// (a0 b0 a1 b1 ...) in two registers to (a0 a1 ...) and (b0 b1 ...).
THOX_INLINE void split_pairs(Reg low, Reg high, Reg& a, Reg& b) {
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const __m512i odd = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  a = _mm512_permutex2var_ps(low, even, high);
  b = _mm512_permutex2var_ps(low, odd, high);
}

THOX_INLINE void join_pairs(Reg a, Reg b, Reg& low, Reg& high) {
  const __m512i first = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i second = _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);
  low = _mm512_permutex2var_ps(a, first, b);
  high = _mm512_permutex2var_ps(a, second, b);
}

}  // namespace
}  // namespace thox_edge_ops_cpu
