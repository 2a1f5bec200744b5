// The gated activations: g * sigmoid(y) * u, with y = g for SiLU. tanh-GELU is
// the same with y = 2 sqrt(2 / pi) (g + 0.044715 g^3), as 1 + tanh(z) = 2 sigmoid(2 z).
//
// sigmoid(y) = 1 / (1 + e^-y), and e^-y = 2^n e^-r with n whole and |r| at most
// half of ln 2. Adding a number whose last bit weighs 1 rounds -y / ln 2 to n and
// leaves n in the last bits. Since r coth(r / 2) is an even function, so short a
// polynomial c of r^2 as 2 + r^2 / 6 - r^4 / 361 gives e^-r = (c - r) / (c + r)
// to 5e-10, and the division that the sigmoid needs anyway does for both:
// (c + r) / (c + r + 2^n (c - r)). From e^88 on 2^n (c - r) is infinite. GELU
// computes y / ln 2 straight from g, so that its r is in units of ln 2.
//
// For 16-bit types a unit without fused products makes do with c = 2 + r^2 / 6 and
// with ln 2 in one part: 6e-7 above y = -8 and 5e-6 where the sigmoid is 2^-127.
// Rounding to fp16 alone costs 100 times as much.
// tests/exp_error.cpp measures the sigmoid's relative error for every float.
#pragma once

namespace thox_edge_ops_cpu {
namespace {

// The steps below are taken by several registers at once, operation by
// operation, since a chain of them takes ten times as long as its operations.
// Left alone, the compiler would put one chain after the other to save
// registers; that no register gets past a step before the others keeps it.
#define THOX_STEP(N) _Pragma("GCC unroll 8") for (int j = 0; j < N; ++j)

template <bool kWanted = true, int N>
THOX_INLINE void together(Reg (&r)[N]) {
  if constexpr (!kWanted) {
  } else if constexpr (N == 4) {
    __asm__("" : "+" THOX_REG(r[0]), "+" THOX_REG(r[1]), "+" THOX_REG(r[2]), "+" THOX_REG(r[3]));
  } else if constexpr (N == 2) {
    __asm__("" : "+" THOX_REG(r[0]), "+" THOX_REG(r[1]));
  }
}

// The coefficients of c and what rounds to a whole number: 127 + n are the last
// bits of whole + n, which shifted to the exponent's place are 2^n.
template <bool kShort>
struct SigmoidConstants {
  Reg c0, c1, c2;  // without c2 if kShort
  Reg whole = reg_constant(kWhole);
  ClampConstants limits;

  static constexpr float kWhole = 12582912.f + 127;
  // The bits that whole + n has for all n in [-127, 128], and where they are.
  static constexpr int32_t kWholeBits = 0x4b400000, kWholeMask = -0x100;

  // For r in units of `unit`, and n up to `limit` on both sides.
  THOX_INLINE SigmoidConstants(float unit, float limit)
      : c0(reg_constant((kShort ? 2.00001247f : 2.f) / unit)), c1(reg_constant((kShort ? 0.16625083f : 0.16666618f) * unit)),
        c2(reg_constant(-0.00276599f * unit * unit * unit)), limits(-limit, limit) {}
};

// r[j] becomes the sigmoid's dividend and d[j] its divisor; d[j] is whole + n.
template <bool kShort, int N>
THOX_INLINE void ratio(const SigmoidConstants<kShort>& k, Reg (&r)[N], Reg (&d)[N]) {
  Reg square[N], c[N];
  THOX_STEP(N) square[j] = reg_mul(r[j], r[j]);
  together(square);
  if constexpr (kShort) {
    THOX_STEP(N) c[j] = reg_fma(square[j], k.c1, k.c0);
  } else {
    THOX_STEP(N) c[j] = reg_fma(square[j], k.c2, k.c1);
    together(c);
    THOX_STEP(N) c[j] = reg_fma(square[j], c[j], k.c0);
  }
  together(c);
  THOX_STEP(N) square[j] = reg_sub(c[j], r[j]);
  THOX_STEP(N) r[j] = reg_add(c[j], r[j]);
  together(r);
  THOX_STEP(N) d[j] = reg_fma(square[j], reg_power(d[j]), r[j]);
  together(d);
}

// A call's constants, by Act. reduce() takes y, or GELU's g, to r and whole + n,
// within the limits if kLimited. Alone it is no long chain: the compiler's order
// is the better one for it then.
template <int kAct, bool kShort>
struct GateConstants;

template <bool kShort>
struct GateConstants<kSilu, kShort> : SigmoidConstants<kShort> {
  using SigmoidConstants<kShort>::whole, SigmoidConstants<kShort>::limits;
  Reg inverse = reg_constant(-1.44269502f);
  // With a fused product n ln 2 need not be exact. ln 2 itself is rounded, which
  // shows for large n only. Otherwise it is in two parts, the first short enough
  // that its product with n is exact.
  static constexpr bool kTwoParts = !THOX_FUSED && !kShort;
  Reg ln2 = reg_constant(kTwoParts ? 0.693359375f : 0.693147182f), ln2_rest = reg_constant(-2.12194440e-4f);

  THOX_INLINE GateConstants() : SigmoidConstants<kShort>(1.f, 88.3f) {}

  template <bool kLimited, int N>
  THOX_INLINE void reduce(Reg (&y)[N], Reg (&biased)[N]) const {
    Reg n[N];
    if constexpr (kLimited) {
      THOX_STEP(N) y[j] = reg_clamp(y[j], limits);
      together<kLimited>(y);
    }
    THOX_STEP(N) biased[j] = reg_fma(y[j], inverse, whole);
    together<kLimited>(biased);
    THOX_STEP(N) n[j] = reg_sub(biased[j], whole);
    THOX_STEP(N) y[j] = reg_fma(n[j], ln2, y[j]);
    together<kLimited>(y);
    if constexpr (kTwoParts) {
      THOX_STEP(N) y[j] = reg_fma(n[j], ln2_rest, y[j]);
      together<kLimited>(y);
    }
  }
};

template <bool kShort>
struct GateConstants<kGeluTanh, kShort> : SigmoidConstants<kShort> {
  using SigmoidConstants<kShort>::whole, SigmoidConstants<kShort>::limits;
  // Of y / ln 2 = g (cubic g^2 + linear).
  Reg linear = reg_constant(2.3022082f), cubic = reg_constant(0.102943236f);

  THOX_INLINE GateConstants() : SigmoidConstants<kShort>(0.693147181f, 127.4f) {}

  template <bool kLimited, int N>
  THOX_INLINE void reduce(Reg (&g)[N], Reg (&biased)[N]) const {
    Reg square[N];
    THOX_STEP(N) square[j] = reg_mul(g[j], g[j]);
    together<kLimited>(square);
    THOX_STEP(N) square[j] = reg_fma(square[j], cubic, linear);
    together<kLimited>(square);
    THOX_STEP(N) g[j] = reg_mul(g[j], square[j]);
    together<kLimited>(g);
    reduce_power<kLimited>(g, biased);
  }

  // The same of t = y / ln 2.
  template <bool kLimited, int N>
  THOX_INLINE void reduce_power(Reg (&t)[N], Reg (&biased)[N]) const {
    Reg n[N];
    if constexpr (kLimited) {
      THOX_STEP(N) t[j] = reg_clamp(t[j], limits);
      together<kLimited>(t);
    }
    THOX_STEP(N) biased[j] = reg_sub(whole, t[j]);
    together<kLimited>(biased);
    THOX_STEP(N) n[j] = reg_sub(biased[j], whole);
    THOX_STEP(N) t[j] = reg_add(t[j], n[j]);
    together<kLimited>(t);
  }
};

// Sixteen or 32 lanes, kGateRegs registers at a time: g becomes the result.
template <class Constants, int kCount>
THOX_INLINE void gated(const Constants& constants, F (&g)[kCount], const F (&u)[kCount]) {
  constexpr int all = kCount * kRegs, step = all < kGateRegs ? all : kGateRegs;
  _Pragma("GCC unroll 8") for (int at = 0; at < all; at += step) {
    Reg r[step], d[step];
    THOX_STEP(step) r[j] = g[(at + j) / kRegs].r[(at + j) % kRegs];
    constants.template reduce<true>(r, d);
    ratio(constants, r, d);
    THOX_STEP(step) {
      Reg& x = g[(at + j) / kRegs].r[(at + j) % kRegs];
      x = reg_mul(reg_mul(reg_div(r[j], d[j]), x), u[(at + j) / kRegs].r[(at + j) % kRegs]);
    }
  }
}

#if !THOX_FUSED

// The same in three passes over kChunk elements, for a unit of few and short
// registers: all operations one after the other, twice as many as where they
// are fused, are a chain longer than what the CPU holds in flight. No n is
// limited here: false, with nothing stored, where one has to be. Out of line,
// for the compiler not to know the constants: it would only load more of them.
constexpr int kChunk = 128;

THOX_INLINE const float* as_floats(const float* p, Reg*) { return p; }

template <class T>
THOX_INLINE const float* as_floats(const T* p, Reg* buffer) {
  _Pragma("GCC unroll 1") for (int i = 0; i < kChunk; i += 2 * kLanes) {
    F f[2];
    load_pair(p + i, f);
    THOX_EACH_REG buffer[i / kRegLanes + j] = f[0].r[j], buffer[i / kRegLanes + kRegs + j] = f[1].r[j];
  }
  return reinterpret_cast<const float*>(buffer);
}

template <class T, class Constants>
__attribute__((noinline)) bool gated_chunk(const Constants& constants, T* out, const T* gate, const T* up) {
  constexpr int all = kChunk / kRegLanes, step = kGateRegs;
  Reg floats[all], r[all], d[all];
  const float* const x = as_floats(gate, floats);
  Reg any_bits = reg_splat(0.f), common_bits = constants.whole;
  _Pragma("GCC unroll 1") for (int at = 0; at < all; at += step) {
    Reg y[step], biased[step];
    THOX_STEP(step) y[j] = reg_load(x + (at + j) * kRegLanes);
    constants.template reduce<false>(y, biased);
    THOX_STEP(step) r[at + j] = y[j], d[at + j] = biased[j];
    THOX_STEP(step) any_bits = reg_or(any_bits, biased[j]);
    THOX_STEP(step) common_bits = reg_and(common_bits, biased[j]);
  }
  if (!have_bits(any_bits, common_bits, constants.kWholeBits, constants.kWholeMask)) return false;
  _Pragma("GCC unroll 1") for (int at = 0; at < all; at += step) {
    Reg a[step], b[step];
    THOX_STEP(step) a[j] = r[at + j], b[j] = d[at + j];
    ratio(constants, a, b);
    THOX_STEP(step) r[at + j] = reg_mul(reg_div(a[j], b[j]), reg_load(x + (at + j) * kRegLanes));
  }
  _Pragma("GCC unroll 1") for (int i = 0; i < kChunk; i += 2 * kLanes) {
    F u[2];
    load_pair(up + i, u);
    const Reg* const g = r + i / kRegLanes;
    THOX_EACH_REG u[0].r[j] = reg_mul(g[j], u[0].r[j]), u[1].r[j] = reg_mul(g[kRegs + j], u[1].r[j]);
    store_computed_pair(out + i, u);
  }
  return true;
}

#endif

}  // namespace
}  // namespace thox_edge_ops_cpu
