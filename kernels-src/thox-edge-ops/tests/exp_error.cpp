// Measures the exponential behind the gates against double precision: the
// relative error of 1 + e^-x, which SiLU divides by, for every float32 in
// [-88.72, 87], and that of 1 + 2^t, which GELU divides by, for every float32
// in [-126, 128). Compiled with a unit's flags it measures that unit's
// arithmetic; about two minutes.
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

// Sixteen lanes of 1 + e^-x, or of 1 + 2^x.
F of_e(F x) {
  GateConstants<kSilu>().denominator(x.r);
  return x;
}

F of_two(F t) {
  one_plus_power_of_two(GateConstants<kGeluTanh>(), t.r);
  return t;
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
      const double want = 1 + exact(double(x[i]));
      const double error = fabs(got[i] - want) / want;
      if (!(error <= worst.error)) worst = {error, x[i]};
    }
  }
  return worst;
}

}  // namespace

int main(int argc, char**) {
  const uint32_t step = argc > 1 ? 997 : 1;  // with any argument: a sample
  const auto exp_minus = [](double x) { return exp(-x); };
  const auto power = [](double t) { return exp2(t); };
  struct {
    const char* what;
    F (*fn)(F);
    double (*exact)(double);
    float first, last;
    double bound;
  } const ranges[] = {
      // Where operations are fused, ln 2 is in one part (gate.h).
      {"1 + e^-x, x in [-8, 0]", of_e, exp_minus, -0.f, -8.f, 3e-7},
      {"1 + e^-x, x in [-88.72, 0]", of_e, exp_minus, -0.f, -88.72f, THOX_FUSED ? 4.5e-7 : 3e-7},
      {"1 + e^-x, x in [0, 87]", of_e, exp_minus, 0.f, 87.f, 2.5e-7},
      {"1 + 2^t, t in [-126, 0]", of_two, power, -0.f, -126.f, 2.6e-7},
      {"1 + 2^t, t in [0, 128)", of_two, power, 0.f, 127.9999f, 3e-7},
  };
  bool ok = true;
  for (const auto& r : ranges) {
    const Worst worst = measure(r.fn, r.exact, r.first, r.last, step);
    const bool within = worst.error <= r.bound;
    printf("%-27s relative error %.3g at %.9g%s\n", r.what, worst.error, worst.at, within ? "" : ": TOO LARGE");
    ok &= within;
  }
  float ends[kLanes] = {INFINITY, 1e30f, -89.f, -1e30f, -INFINITY}, got[kLanes];
  store(got, of_e(load(ends)));
  const bool ends_ok = got[0] == 1 && got[1] == 1 && isinf(got[2]) && isinf(got[3]) && isinf(got[4]);
  if (!ends_ok) printf("the ends are wrong: %g %g %g %g %g\n", got[0], got[1], got[2], got[3], got[4]);
  return !(ok && ends_ok);
}
