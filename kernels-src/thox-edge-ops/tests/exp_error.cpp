// Measures the exponential behind the gates: the relative error of 1 + e^-x
// over every float32 in [-88.72, 87], against double precision. Compiled with
// a unit's flags it measures that unit's arithmetic; about a minute.
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

using namespace thox_edge_ops_cpu;

namespace {

struct Worst {
  double error = 0;
  float at = 0;
};

// All floats from 0 to `last` with the sign of `sign`, every `step`-th.
Worst measure(float last, uint32_t sign, uint32_t step) {
  uint32_t end;
  memcpy(&end, &last, 4);
  Worst worst;
  for (uint32_t bits = 0; bits <= end; bits += kLanes * step) {
    float x[kLanes], got[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      uint32_t b = bits + uint32_t(i) * step;
      b = (b < end ? b : end) | sign;
      memcpy(&x[i], &b, 4);
    }
    store(got, one_plus_exp_minus(load(x)));
    for (int i = 0; i < kLanes; ++i) {
      const double want = 1 + exp(-double(x[i]));
      const double error = fabs(got[i] - want) / want;
      if (!(error <= worst.error)) worst = {error, x[i]};
    }
  }
  return worst;
}

}  // namespace

int main(int argc, char**) {
  const uint32_t step = argc > 1 ? 997 : 1;  // with any argument: a sample
  const Worst below = measure(88.72f, 0x80000000u, step), above = measure(87.f, 0, step);
  printf("1 + e^-x, x in [-88.72, 0]: relative error %.3g at %.9g\n", below.error, below.at);
  printf("1 + e^-x, x in [0, 87]: relative error %.3g at %.9g\n", above.error, above.at);
  float ends[kLanes] = {INFINITY, 1e30f, -89.f, -1e30f, -INFINITY, NAN}, got[kLanes];
  store(got, one_plus_exp_minus(load(ends)));
  const bool ends_ok = got[0] == 1 && got[1] == 1 && isinf(got[2]) && isinf(got[3]) && isinf(got[4]) && isnan(got[5]);
  if (!ends_ok) printf("the ends are wrong: %g %g %g %g %g %g\n", got[0], got[1], got[2], got[3], got[4], got[5]);
  return !(ends_ok && below.error < 2.5e-7 && above.error < 2.5e-7);
}
