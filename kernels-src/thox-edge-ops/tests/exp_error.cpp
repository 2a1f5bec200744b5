// Measures the sigmoid behind the gates against double precision: the relative
// error of 1 / (1 + e^-x), which is SiLU's, for every float32 in [-88, 89], and
// that of 1 / (1 + 2^-t), which is GELU's, for every float32 in [-126.5, 128].
// Compiled with a unit's flags it measures that unit's arithmetic; about two
// minutes.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../cpu/unit.h"
#if defined(__AVX512F__)
#include "../cpu/vec_avx512.h"
#elif defined(__AVX2__)
#include "../cpu/vec_avx2.h"
#elif defined(__aarch64__)
#include "../cpu/vec_neon.h"
#else
#include "../cpu/vec_sse2.h"
#endif
#include "../cpu/lanes.h"
#include "../cpu/gate.h"

using namespace thox_edge_ops_cpu;

namespace {

struct Worst {
  double error = 0;
  float at = 0;
};

// Sixteen lanes of 1 / (1 + e^-x), or of 1 / (1 + 2^-x); if kShort as for 16-bit types.
template <bool kShort, class Reduce>
F sigmoid(F x, Reduce reduce, const SigmoidConstants<kShort>& constants) {
  Reg d[kRegs];
  reduce(x.r, d);
  ratio(constants, x.r, d);
  THOX_EACH_REG x.r[j] = reg_div(x.r[j], d[j]);
  return x;
}

template <bool kShort>
F of_e(F x) {
  const GateConstants<kSilu, kShort> k;
  return sigmoid<kShort>(x, [&](auto& y, auto& d) { k.template reduce<true>(y, d); }, k);
}

template <bool kShort>
F of_two(F t) {
  const GateConstants<kGeluTanh, kShort> k;
  return sigmoid<kShort>(t, [&](auto& y, auto& d) { k.template reduce_power<true>(y, d); }, k);
}

// All floats of one sign from `first` to `last`, every `step`-th.
Worst measure(F (*fn)(F), double (*exact)(double), float first, float last, uint32_t step) {
  uint32_t begin, end;
  memcpy(&begin, &first, 4);
  memcpy(&end, &last, 4);
  Worst worst;
  for (uint64_t bits = begin; bits <= end; bits += uint64_t(kLanes) * step) {
    float x[kLanes], got[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      const uint64_t b = bits + uint64_t(i) * step;
      const uint32_t one = uint32_t(b < end ? b : end);
      memcpy(&x[i], &one, 4);
    }
    store(got, fn(load(x)));
    for (int i = 0; i < kLanes; ++i) {
      const double want = 1 / (1 + exact(-double(x[i])));
      const double error = fabs(got[i] - want) / want;
      if (!(error <= worst.error)) worst = {error, x[i]};
    }
  }
  return worst;
}

}  // namespace

int main(int argc, char**) {
  const uint32_t step = argc > 1 ? 997 : 1;  // with any argument: a sample
  struct {
    const char* what;
    F (*fn)(F);
    double (*exact)(double);
    float first, last;
    double bound;
  } const ranges[] = {
      // Where operations are fused, ln 2 is in one part (gate.h).
      {"1 / (1 + e^-x), x in [-8, 0]", of_e<false>, exp, -0.f, -8.f, 3e-7},
      {"1 / (1 + e^-x), x in [-88, 0]", of_e<false>, exp, -0.f, -88.f, THOX_FUSED ? 4.5e-7 : 3e-7},
      {"1 / (1 + e^-x), x in [0, 89]", of_e<false>, exp, 0.f, 89.f, 2.5e-7},
      {"1 / (1 + 2^-t), t in [-126.5, 0]", of_two<false>, exp2, -0.f, -126.49999f, 3e-7},
      {"1 / (1 + 2^-t), t in [0, 128]", of_two<false>, exp2, 0.f, 128.f, 2.5e-7},
  };
  bool ok = true;
  const auto check = [&](const char* what, const Worst& worst, double bound) {
    const bool within = worst.error <= bound;
    printf("%-34s relative error %.3g at %.9g%s\n", what, worst.error, worst.at, within ? "" : ": TOO LARGE");
    ok &= within;
  };
  for (const auto& r : ranges) check(r.what, measure(r.fn, r.exact, r.first, r.last, step), r.bound);
  if (!THOX_FUSED) {  // every number that fp16 or bf16 has in the range
    const uint32_t each = 1 << 13;
    check("16 bits: 1 / (1 + e^-x), x >= -8", measure(of_e<true>, exp, -0.f, -8.f, each), 9e-7);
    check("16 bits: 1 / (1 + e^-x), x >= -88", measure(of_e<true>, exp, -0.f, -88.f, each), 6e-6);
    check("16 bits: 1 / (1 + e^-x), x <= 89", measure(of_e<true>, exp, 0.f, 89.f, each), 6e-7);
    check("16 bits: 1 / (1 + 2^-t), t >= -126", measure(of_two<true>, exp2, -0.f, -126.f, each), 9e-7);
  }
  // Past e^88 the sigmoid is 0, and there never is a negative or an odd one.
  const float ends[kLanes] = {INFINITY, 1e30f, 89.f, 88.1f, -88.1f, -89.f, -1e30f, -INFINITY};
  float e[kLanes], two[kLanes];
  store(e, of_e<false>(load(ends)));
  store(two, of_two<false>(load(ends)));
  bool ends_ok = true;
  for (int i = 0; i < 8; ++i) ends_ok &= e[i] == (i < 4) && (two[i] == (i < 4) || fabsf(ends[i]) < 127.4f);
  if (!ends_ok) printf("the ends are wrong\n");
  return !(ok && ends_ok);
}
