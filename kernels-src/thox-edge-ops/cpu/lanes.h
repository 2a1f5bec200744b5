// Sixteen fp32 lanes, as one to four registers of the unit's instruction set.
//
// Included by a unit after its vec_*.h, which defines Reg and its operations.
// Because every unit computes in the same sixteen lanes and adds them up in
// the same order, an operation sequence without a fused multiply-add gives the
// same bits on every unit.
#pragma once

namespace thox_edge_ops_cpu {
namespace {

constexpr int kLanes = 16;
constexpr int kRegs = kLanes / kRegLanes;
static_assert(kRegs * kRegLanes == kLanes, "sixteen lanes are whole registers");

struct F {
  Reg r[kRegs];
};

#define THOX_EACH_REG _Pragma("GCC unroll 4") for (int j = 0; j < kRegs; ++j)

THOX_INLINE F splat(float v) {
  F f;
  THOX_EACH_REG f.r[j] = reg_splat(v);
  return f;
}

THOX_INLINE F add(F a, F b) {
  THOX_EACH_REG a.r[j] = reg_add(a.r[j], b.r[j]);
  return a;
}

THOX_INLINE F sub(F a, F b) {
  THOX_EACH_REG a.r[j] = reg_sub(a.r[j], b.r[j]);
  return a;
}

THOX_INLINE F mul(F a, F b) {
  THOX_EACH_REG a.r[j] = reg_mul(a.r[j], b.r[j]);
  return a;
}

THOX_INLINE F div(F a, F b) {
  THOX_EACH_REG a.r[j] = reg_div(a.r[j], b.r[j]);
  return a;
}

// One plus e^-x, with a relative error below 2.3e-7 for x in [-88.72, 87]
// (tests/exp_error.cpp measures it over every such float); 1 above, inf below,
// NaN for NaN.
//
// e^-x = 2^n e^-r with n = -round(x / ln 2), r = x + n ln 2 and |r| <= ln(2) / 2.
// Adding a number whose last bit weighs 1 rounds to a whole one, and leaves
// n + 126 in the last bits for the unit to make 2^n of. ln 2 is split in two
// parts, the first short enough that its product with n is exact. The
// polynomial is the minimax one of degree 5 that begins with 1 - r.
THOX_INLINE F one_plus_exp_minus(F x) {
  const Reg whole = reg_splat(12582912.f + 126.f);
  THOX_EACH_REG {
    // Written so that a NaN comes through: the second operand wins.
    Reg r = reg_min(reg_splat(87.f), reg_max(reg_splat(-89.f), x.r[j]));
    const Reg biased = reg_sub(whole, reg_mul(r, reg_splat(1.44269504f)));
    const Reg n = reg_sub(biased, whole);
    r = reg_fma(n, reg_splat(0.693359375f), r);
    r = reg_fma(n, reg_splat(-2.12194440e-4f), r);
    Reg p = reg_fma(r, reg_splat(-0.008312501f), reg_splat(0.04189033f));
    p = reg_fma(r, p, reg_splat(-0.16667116f));
    p = reg_fma(r, p, reg_splat(0.4999923f));
    p = reg_fma(r, p, reg_splat(-1.f));
    p = reg_fma(r, p, reg_splat(1.f));
    x.r[j] = reg_one_plus_scaled(p, n, biased);
  }
  return x;
}

// Sixteen elements at p, as fp32.
THOX_INLINE F load(const float* p) {
  F f;
  THOX_EACH_REG f.r[j] = reg_load(p + j * kRegLanes);
  return f;
}

THOX_INLINE F load(const Half* p) {
  F f;
  THOX_EACH_REG f.r[j] = reg_load(p + j * kRegLanes);
  return f;
}

THOX_INLINE F load(const BFloat16* p) {
  F f;
  THOX_EACH_REG f.r[j] = reg_load(p + j * kRegLanes);
  return f;
}

// Stores sixteen elements, rounded to nearest even. A NaN keeps its sign and
// the leading bits of its payload, and is quiet.
THOX_INLINE void store(float* p, F f) {
  THOX_EACH_REG reg_store(p + j * kRegLanes, f.r[j]);
}

THOX_INLINE void store(Half* p, F f) { lanes_store(p, f.r); }
THOX_INLINE void store(BFloat16* p, F f) { lanes_store(p, f.r); }

// load and store for computations in which the order of the lanes does not
// matter, with all of their operands of type T: cheaper on some units.
template <class T>
THOX_INLINE F load_any_order(const T* p) {
  return load(p);
}

template <class T>
THOX_INLINE void store_any_order(T* p, F f) {
  store(p, f);
}

#ifdef THOX_SPLIT_BFLOAT16
template <>
THOX_INLINE F load_any_order<BFloat16>(const BFloat16* p) {
  F f;
  lanes_load_split(p, f.r);
  return f;
}

template <>
THOX_INLINE void store_any_order<BFloat16>(BFloat16* p, F f) {
  lanes_store_split(p, f.r);
}
#endif

// The value that store followed by load gives.
template <class T>
THOX_INLINE F rounded(F f) {
  THOX_EACH_REG f.r[j] = reg_rounded(f.r[j], T());
  return f;
}
template <>
THOX_INLINE F rounded<float>(F f) {
  return f;
}

// Adds up the lanes of a: lane i and i + 8, then 4, 2 and 1 apart. The sums of
// registers come first where a register has fewer lanes than that.
THOX_INLINE float lane_sum(F a) {
  if (kRegs == 4) {
    a.r[0] = reg_add(reg_add(a.r[0], a.r[2 % kRegs]), reg_add(a.r[1 % kRegs], a.r[3 % kRegs]));
  } else if (kRegs == 2) {
    a.r[0] = reg_add(a.r[0], a.r[1 % kRegs]);
  }
  return reg_lane_sum(a.r[0]);
}

// (a0 b0 a1 b1 ...), 32 elements in a and b, to (a0 a1 ...) and (b0 b1 ...).
THOX_INLINE void deinterleave(F& a, F& b) {
  F even, odd;
  THOX_EACH_REG {
    const Reg low = 2 * j < kRegs ? a.r[2 * j % kRegs] : b.r[2 * j % kRegs];
    const Reg high = 2 * j + 1 < kRegs ? a.r[(2 * j + 1) % kRegs] : b.r[(2 * j + 1) % kRegs];
    split_pairs(low, high, even.r[j], odd.r[j]);
  }
  a = even;
  b = odd;
}

THOX_INLINE void interleave(F& a, F& b) {
  Reg joined[2 * kRegs];
  THOX_EACH_REG join_pairs(a.r[j], b.r[j], joined[2 * j], joined[2 * j + 1]);
  THOX_EACH_REG {
    a.r[j] = joined[j];
    b.r[j] = joined[kRegs + j];
  }
}

#ifdef THOX_MASKED_TAILS

template <class T>
THOX_INLINE F load_tail(const T* p, int n) {
  return {{reg_load_tail(p, n)}};
}

template <class T>
THOX_INLINE void store_tail(T* p, F f, int n) {
  reg_store_tail(p, f.r[0], n);
}

#else

// Copies n < 16 elements in at most four moves of fixed size.
template <class T>
THOX_INLINE void copy_tail(T* to, const T* from, int n) {
  int i = 0;
  if (n & 8) __builtin_memcpy(to, from, 8 * sizeof(T)), i = 8;
  if (n & 4) __builtin_memcpy(to + i, from + i, 4 * sizeof(T)), i += 4;
  if (n & 2) __builtin_memcpy(to + i, from + i, 2 * sizeof(T)), i += 2;
  if (n & 1) __builtin_memcpy(to + i, from + i, sizeof(T));
}

// The first n < 16 elements at p; the other lanes are 0.
template <class T>
THOX_INLINE F load_tail(const T* p, int n) {
  alignas(64) T buffer[kLanes];
  __builtin_memset(buffer, 0, sizeof(buffer));
  copy_tail(buffer, p, n);
  return load(buffer);
}

template <class T>
THOX_INLINE void store_tail(T* p, F f, int n) {
  alignas(64) T buffer[kLanes];
  store(buffer, f);
  copy_tail(p, static_cast<const T*>(buffer), n);
}

#endif  // THOX_MASKED_TAILS

// load or load_tail, by whether n is a whole vector.
template <bool kTail, bool kAnyOrder = false, class T>
THOX_INLINE F load_n(const T* p, int n) {
  if constexpr (kTail) {
    return load_tail(p, n);
  } else if constexpr (kAnyOrder) {
    return load_any_order(p);
  } else {
    return load(p);
  }
}

template <bool kTail, bool kAnyOrder = false, class T>
THOX_INLINE void store_n(T* p, F f, int n) {
  if constexpr (kTail) {
    store_tail(p, f, n);
  } else if constexpr (kAnyOrder) {
    store_any_order(p, f);
  } else {
    store(p, f);
  }
}

}  // namespace
}  // namespace thox_edge_ops_cpu
