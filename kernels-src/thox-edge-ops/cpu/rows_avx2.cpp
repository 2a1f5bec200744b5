// The unit for AVX2, FMA and F16C. Nothing on other architectures.
#include "unit.h"

#if defined(__x86_64__)

#include "vec_avx2.h"

#include "lanes.h"
#include "rows.h"

namespace thox_edge_ops_cpu {
namespace {
THOX_DEFINE_UNIT(avx2)
}
}  // namespace thox_edge_ops_cpu

THOX_EDGE_OPS_UNIT(avx2) { return &thox_edge_ops_cpu::unit_table; }

#endif
