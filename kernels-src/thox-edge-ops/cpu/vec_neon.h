// Registers of four fp32 lanes: NEON, which every aarch64 CPU has; where the
// unit is compiled for BF16 too, the CPU rounds to bf16. fp16 arithmetic would
// not help: everything is computed in fp32, and the conversions are part of
// the base architecture.
#pragma once

#include <arm_neon.h>

namespace thox_edge_ops_cpu {
namespace {

using Reg = float32x4_t;
constexpr int kRegLanes = 4;

THOX_INLINE Reg reg_splat(float v) { return vdupq_n_f32(v); }
THOX_INLINE Reg reg_add(Reg a, Reg b) { return vaddq_f32(a, b); }
THOX_INLINE Reg reg_sub(Reg a, Reg b) { return vsubq_f32(a, b); }
THOX_INLINE Reg reg_mul(Reg a, Reg b) { return vmulq_f32(a, b); }
THOX_INLINE Reg reg_div(Reg a, Reg b) { return vdivq_f32(a, b); }
THOX_INLINE Reg reg_fma(Reg a, Reg b, Reg c) { return vfmaq_f32(c, a, b); }

// For gate.h.
#define THOX_FUSED 1  // reg_fma rounds once
#define THOX_REG "w"  // a register to an assembler statement
constexpr int kGateRegs = 4;

THOX_INLINE Reg reg_constant(float v) { return reg_splat(v); }

struct ClampConstants {
  Reg low, high;
  THOX_INLINE ClampConstants(float low, float high) : low(reg_splat(low)), high(reg_splat(high)) {}
};
THOX_INLINE Reg reg_clamp(Reg a, const ClampConstants& limits) {
  return vminq_f32(limits.high, vmaxq_f32(limits.low, a));
}

// 2^n, where the last bits of `biased` are 127 + n.
THOX_INLINE Reg reg_power(Reg biased) {
  return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(biased), 23));
}

THOX_INLINE Reg reg_load(const float* p) { return vld1q_f32(p); }

THOX_INLINE Reg reg_load(const Half* p) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const uint16_t*>(p))));
}

THOX_INLINE Reg reg_load(const BFloat16* p) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(reinterpret_cast<const uint16_t*>(p)), 16));
}

THOX_INLINE void reg_store(float* p, Reg a) { vst1q_f32(p, a); }

THOX_INLINE void lanes_store(Half* p, const Reg (&r)[4]) {
  uint16_t* const to = reinterpret_cast<uint16_t*>(p);
  vst1q_u16(to, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(r[0]), r[1])));
  vst1q_u16(to + 8, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(r[2]), r[3])));
}

// a with its low half rounded away, to nearest even: adding 0x7fff and the bit
// that becomes the last one carries into the upper half as it should, also
// into the exponent.
THOX_INLINE uint32x4_t number_bits(Reg a) {
  const uint32x4_t bits = vreinterpretq_u32_f32(a);
  const uint32x4_t last = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
  return vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), last);
}

// A NaN would turn into infinity, so it only becomes quiet.
THOX_INLINE uint32x4_t bfloat16_bits(Reg a) {
  const uint32x4_t quiet = vorrq_u32(vreinterpretq_u32_f32(a), vdupq_n_u32(0x400000));
  return vbslq_u32(vceqq_f32(a, a), number_bits(a), quiet);
}

#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC

// Unlike its x86 namesake the instruction rounds subnormal numbers as well.
THOX_INLINE void lanes_store(BFloat16* p, const Reg (&r)[4]) {
  bfloat16_t* const to = reinterpret_cast<bfloat16_t*>(p);
  vst1q_bf16(to, vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(r[0]), r[1]));
  vst1q_bf16(to + 8, vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(r[2]), r[3]));
}

THOX_INLINE Reg reg_rounded(Reg a, BFloat16) {
  return vcvt_f32_bf16(vcvt_bf16_f32(a));
}

#else

THOX_INLINE void lanes_store(BFloat16* p, const Reg (&r)[4]) {
  uint16_t* const to = reinterpret_cast<uint16_t*>(p);
  for (int j = 0; j < 4; j += 2) {
    // The odd 16-bit words are the upper halves.
    const uint16x8_t low = vreinterpretq_u16_u32(bfloat16_bits(r[j]));
    const uint16x8_t high = vreinterpretq_u16_u32(bfloat16_bits(r[j + 1]));
    vst1q_u16(to + 4 * j, vuzp2q_u16(low, high));
  }
}

THOX_INLINE Reg reg_rounded(Reg a, BFloat16) {
  return vreinterpretq_f32_u32(vandq_u32(bfloat16_bits(a), vdupq_n_u32(0xffff0000u)));
}

#endif

// Eight elements: those with an even index, and the odd ones.
THOX_INLINE void load_even_odd(const BFloat16* p, Reg& even, Reg& odd) {
  const uint32x4_t words = vreinterpretq_u32_u16(vld1q_u16(reinterpret_cast<const uint16_t*>(p)));
  even = vreinterpretq_f32_u32(vshlq_n_u32(words, 16));
  odd = vreinterpretq_f32_u32(vandq_u32(words, vdupq_n_u32(0xffff0000u)));
}

// With kPlainNaNs the lower half of a NaN is empty, so that rounding leaves it alone.
template <bool kPlainNaNs>
THOX_INLINE void store_even_odd(BFloat16* p, const Reg (&even)[4], const Reg (&odd)[4]) {
  for (int j = 0; j < 4; ++j) {
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
    const uint16x8_t low = vreinterpretq_u16_bf16(vcvtq_low_bf16_f32(even[j]));
    const uint16x8_t high = vreinterpretq_u16_bf16(vcvtq_low_bf16_f32(odd[j]));
    vst1q_u16(reinterpret_cast<uint16_t*>(p) + 8 * j, vzip1q_u16(low, high));
#else
    // The odd 16-bit words are the upper halves.
    const uint16x8_t low = vreinterpretq_u16_u32(kPlainNaNs ? number_bits(even[j]) : bfloat16_bits(even[j]));
    const uint16x8_t high = vreinterpretq_u16_u32(kPlainNaNs ? number_bits(odd[j]) : bfloat16_bits(odd[j]));
    vst1q_u16(reinterpret_cast<uint16_t*>(p) + 8 * j, vtrn2q_u16(low, high));
#endif
  }
}

THOX_INLINE Reg reg_rounded(Reg a, Half) { return vcvt_f32_f16(vcvt_f16_f32(a)); }

// Lanes 2, then 1 apart.
THOX_INLINE float reg_lane_sum(Reg a) {
  const float32x2_t v = vadd_f32(vget_low_f32(a), vget_high_f32(a));
  return vget_lane_f32(vpadd_f32(v, v), 0);
}

THOX_INLINE float scalar_sqrt(float v) { return vget_lane_f32(vsqrt_f32(vdup_n_f32(v)), 0); }

// (a0 b0 a1 b1 ...) in two registers to (a0 a1 ...) and (b0 b1 ...).
THOX_INLINE void split_pairs(Reg low, Reg high, Reg& a, Reg& b) {
  a = vuzp1q_f32(low, high);
  b = vuzp2q_f32(low, high);
}

THOX_INLINE void join_pairs(Reg a, Reg b, Reg& low, Reg& high) {
  low = vzip1q_f32(a, b);
  high = vzip2q_f32(a, b);
}

}  // namespace
}  // namespace thox_edge_ops_cpu
