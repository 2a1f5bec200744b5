// The unit for AVX-512 F, BW, VL and DQ. Nothing on other architectures.
#include "unit.h"

#if defined(__x86_64__)

#include "vec_avx512.h"

#include "lanes.h"
#include "rows.h"

namespace thox_edge_ops_cpu {
namespace {
THOX_DEFINE_UNIT(avx512)
}
}  // namespace thox_edge_ops_cpu

THOX_EDGE_OPS_UNIT(avx512) { return &thox_edge_ops_cpu::unit_table; }

#endif
