// The gated activations: g * sigmoid(y) * u, with y = g for SiLU. tanh-GELU is
// the same with y = 2 sqrt(2 / pi) (g + 0.044715 g^3), as 1 + tanh(z) = 2 sigmoid(2 z).
//
// sigmoid(y) = 1 / (1 + e^-y), and e^-y = 2^t = 2^n 2^f with t = -y / ln 2, n whole
// and |f| <= 1/2. Adding a number whose last bit weighs 1 rounds t to n and leaves
// n in the last bits; 2^f is a polynomial of degree 5 that begins with 1, the
// minimax one. The sum is 1 and infinite past the limits. GELU computes t
// straight from g, with 1 / ln 2 in its coefficients. tests/exp_error.cpp
// measures the relative error of 1 + 2^t and 1 + e^-y for every float.
#pragma once

namespace thox_edge_ops_cpu {
namespace {

// The steps below are taken by several registers at once, operation by
// operation, since a chain of them takes ten times as long as its operations.
// Left alone, the compiler would put one chain after the other to save
// registers; that no register gets past a step before the others keeps it.
#define THOX_STEP(N) _Pragma("GCC unroll 8") for (int j = 0; j < N; ++j)

template <int N>
THOX_INLINE void together(Reg (&r)[N]) {
  if constexpr (N == 4) {
    __asm__("" : "+" THOX_REG(r[0]), "+" THOX_REG(r[1]), "+" THOX_REG(r[2]), "+" THOX_REG(r[3]));
  } else if constexpr (N == 2) {
    __asm__("" : "+" THOX_REG(r[0]), "+" THOX_REG(r[1]));
  }
}

// The polynomial's coefficients, kPowerScale times as large where the unit's
// reg_one_plus_power wants that.
struct PowerConstants {
  Reg c1, c2, c3, c4, c5;
  Reg c0 = reg_constant(kPowerScale), one = reg_constant(1.f);
  Reg whole = reg_constant(12582912.f + kWholeBias);

  THOX_INLINE PowerConstants(float v1, float v2, float v3, float v4, float v5)
      : c1(reg_constant(kPowerScale * v1)), c2(reg_constant(kPowerScale * v2)), c3(reg_constant(kPowerScale * v3)),
        c4(reg_constant(kPowerScale * v4)), c5(reg_constant(kPowerScale * v5)) {}
};

struct OfTwo : PowerConstants {  // 2^f
  THOX_INLINE OfTwo() : PowerConstants(0.693147004f, 0.240222469f, 0.0555071086f, 0.00967129506f, 0.00132695935f) {}
};

struct OfE : PowerConstants {  // e^-r
  THOX_INLINE OfE() : PowerConstants(-0.999999702f, 0.499991506f, -0.166676491f, 0.0418978259f, -0.00828955323f) {}
};

// f[j] becomes 1 + 2^n times the polynomial of f[j]; `biased` has n + kWholeBias
// in its last bits.
template <int N>
THOX_INLINE void one_plus_power(const PowerConstants& k, Reg (&f)[N], const Reg (&n)[N], const Reg (&biased)[N]) {
  Reg p[N];
  if constexpr (THOX_FUSED) {
    THOX_STEP(N) p[j] = reg_fma(f[j], k.c5, k.c4);
    together(p);
    THOX_STEP(N) p[j] = reg_fma(f[j], p[j], k.c3);
    together(p);
    THOX_STEP(N) p[j] = reg_fma(f[j], p[j], k.c2);
    together(p);
    THOX_STEP(N) p[j] = reg_fma(f[j], p[j], k.c1);
    together(p);
    THOX_STEP(N) p[j] = reg_fma(f[j], p[j], k.c0);
  } else {
    // Two operations a step make the chain twice as long: halve it.
    Reg square[N], odd[N];
    THOX_STEP(N) square[j] = reg_mul(f[j], f[j]);
    together(square);
    THOX_STEP(N) p[j] = reg_fma(square[j], k.c4, k.c2), odd[j] = reg_fma(square[j], k.c5, k.c3);
    together(p), together(odd);
    THOX_STEP(N) p[j] = reg_fma(square[j], p[j], k.c0), odd[j] = reg_fma(square[j], odd[j], k.c1);
    together(p), together(odd);
    THOX_STEP(N) p[j] = reg_fma(f[j], odd[j], p[j]);
  }
  together(p);
  THOX_STEP(N) f[j] = reg_one_plus_power(p[j], n[j], biased[j], k.one);
  together(f);
}

// t[j] becomes 1 + 2^t.
template <int N>
THOX_INLINE void one_plus_power_of_two(const OfTwo& k, Reg (&t)[N]) {
  Reg biased[N], n[N];
  THOX_STEP(N) biased[j] = reg_add(t[j], k.whole);
  together(biased);
  THOX_STEP(N) n[j] = reg_sub(biased[j], k.whole);
  THOX_STEP(N) t[j] = reg_sub(t[j], n[j]);
  together(t);
  one_plus_power(k, t, n, biased);
}

// A call's constants, by Act.
template <int kAct>
struct GateConstants;

#if THOX_FUSED

// With a fused product n ln 2 need not be exact: r = y + n ln 2 is e^-y's rest.
// ln 2 itself is rounded, which shows for large n only.
template <>
struct GateConstants<kSilu> : OfE {
  Reg inverse = reg_constant(-1.44269502f), ln2 = reg_constant(0.693147182f);
  ClampConstants limits{-89.05f, 86.9f};

  // y[j] becomes 1 + e^-y.
  template <int N>
  THOX_INLINE void denominator(Reg (&y)[N]) const {
    Reg biased[N], n[N];
    THOX_STEP(N) y[j] = reg_clamp(y[j], limits);
    together(y);
    THOX_STEP(N) biased[j] = reg_fma(y[j], inverse, whole);
    together(biased);
    THOX_STEP(N) n[j] = reg_sub(biased[j], whole);
    THOX_STEP(N) y[j] = reg_fma(n[j], ln2, y[j]);
    together(y);
    one_plus_power(*this, y, n, biased);
  }
};

#else

// ln 2 in two parts, the first short enough that its product with n is exact.
template <>
struct GateConstants<kSilu> : OfE {
  Reg inverse = reg_constant(-1.44269502f);
  Reg ln2 = reg_constant(0.693359375f), ln2_rest = reg_constant(-2.12194440e-4f);
  ClampConstants limits{-89.05f, 86.9f};

  template <int N>
  THOX_INLINE void denominator(Reg (&y)[N]) const {
    Reg biased[N], n[N];
    THOX_STEP(N) y[j] = reg_clamp(y[j], limits);
    together(y);
    THOX_STEP(N) biased[j] = reg_fma(y[j], inverse, whole);
    together(biased);
    THOX_STEP(N) n[j] = reg_sub(biased[j], whole);
    THOX_STEP(N) y[j] = reg_fma(n[j], ln2, y[j]);
    together(y);
    THOX_STEP(N) y[j] = reg_fma(n[j], ln2_rest, y[j]);
    together(y);
    one_plus_power(*this, y, n, biased);
  }
};

#endif

template <>
struct GateConstants<kGeluTanh> : OfTwo {
  // Of t = g (cubic g^2 + linear).
  Reg linear = reg_constant(-2.3022082f), cubic = reg_constant(-0.102943236f);
  ClampConstants limits{-125.4f, 128.49f};

  // g[j] becomes 1 + 2^t.
  template <int N>
  THOX_INLINE void denominator(Reg (&g)[N]) const {
    Reg square[N];
    THOX_STEP(N) square[j] = reg_mul(g[j], g[j]);
    together(square);
    THOX_STEP(N) square[j] = reg_fma(square[j], cubic, linear);
    together(square);
    THOX_STEP(N) g[j] = reg_clamp(reg_mul(g[j], square[j]), limits);
    together(g);
    one_plus_power_of_two(*this, g);
  }
};

// Sixteen or 32 lanes, kGateRegs registers at a time: g becomes the result.
template <int kAct, int kCount>
THOX_INLINE void gated(const GateConstants<kAct>& constants, F (&g)[kCount], const F (&u)[kCount]) {
  constexpr int all = kCount * kRegs, step = all < kGateRegs ? all : kGateRegs;
  _Pragma("GCC unroll 8") for (int at = 0; at < all; at += step) {
    Reg d[step];
    THOX_STEP(step) d[j] = g[(at + j) / kRegs].r[(at + j) % kRegs];
    constants.denominator(d);
    THOX_STEP(step) {
      Reg& x = g[(at + j) / kRegs].r[(at + j) % kRegs];
      x = reg_mul(reg_div(x, d[j]), u[(at + j) / kRegs].r[(at + j) % kRegs]);
    }
  }
}

}  // namespace
}  // namespace thox_edge_ops_cpu
