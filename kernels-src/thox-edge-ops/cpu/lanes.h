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
template <bool kTail, class T>
THOX_INLINE F load_n(const T* p, int n) {
  if constexpr (kTail) {
    return load_tail(p, n);
  } else {
    return load(p);
  }
}

template <bool kTail, class T>
THOX_INLINE void store_n(T* p, F f, int n) {
  if constexpr (kTail) {
    store_tail(p, f, n);
  } else {
    store(p, f);
  }
}

// 32 elements, in the order that is cheapest to load: of bf16 those with an even
// index, then the odd ones; of other types the first sixteen, then the last.
// The same on every unit, so that a sum over lanes is.
template <class T>
THOX_INLINE void load_pair(const T* p, F (&f)[2]) {
  f[0] = load(p);
  f[1] = load(p + kLanes);
}
THOX_INLINE void load_pair(const BFloat16* p, F (&f)[2]) {
  THOX_EACH_REG load_even_odd(p + 2 * kRegLanes * j, f[0].r[j], f[1].r[j]);
}

template <class T>
THOX_INLINE void store_pair(T* p, const F (&f)[2]) {
  store(p, f[0]);
  store(p + kLanes, f[1]);
}
THOX_INLINE void store_pair(BFloat16* p, const F (&f)[2]) { store_even_odd<false>(p, f[0].r, f[1].r); }

// The same of what arithmetic makes of elements of that type: a NaN of it is one
// of theirs, made quiet, or the CPU's own, and its last bits are empty.
template <class T>
THOX_INLINE void store_computed_pair(T* p, const F (&f)[2]) { store_pair(p, f); }
THOX_INLINE void store_computed_pair(BFloat16* p, const F (&f)[2]) { store_even_odd<true>(p, f[0].r, f[1].r); }

// What each_block (rows.h) divides a row into, and how its elements come and go.
struct Pair {
  static constexpr int count = 2;  // of F
  template <class T>
  THOX_INLINE void load(const T* p, F (&f)[2]) const { load_pair(p, f); }
  template <class T>
  THOX_INLINE void store(T* p, const F (&f)[2]) const { store_pair(p, f); }
  template <class T>
  THOX_INLINE void store_computed(T* p, const F (&f)[2]) const { store_computed_pair(p, f); }
};
struct Whole {
  static constexpr int count = 1;
  template <class T>
  THOX_INLINE void load(const T* p, F (&f)[1]) const { f[0] = thox_edge_ops_cpu::load(p); }
  template <class T>
  THOX_INLINE void store(T* p, const F (&f)[1]) const { thox_edge_ops_cpu::store(p, f[0]); }
  template <class T>
  THOX_INLINE void store_computed(T* p, const F (&f)[1]) const { store(p, f); }
};
struct Tail {
  static constexpr int count = 1;
  int n;
  template <class T>
  THOX_INLINE void load(const T* p, F (&f)[1]) const { f[0] = load_tail(p, n); }
  template <class T>
  THOX_INLINE void store(T* p, const F (&f)[1]) const { store_tail(p, f[0], n); }
  template <class T>
  THOX_INLINE void store_computed(T* p, const F (&f)[1]) const { store(p, f); }
};

}  // namespace
}  // namespace thox_edge_ops_cpu
