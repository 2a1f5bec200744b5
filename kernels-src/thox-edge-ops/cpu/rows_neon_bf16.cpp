// The unit for aarch64 with BF16. Nothing on other architectures.
#include "unit.h"

#if defined(__aarch64__)

#include "vec_neon.h"

#include "lanes.h"
#include "rows.h"

namespace thox_edge_ops_cpu {
namespace {
THOX_DEFINE_UNIT(neon_bf16)
}
}  // namespace thox_edge_ops_cpu

THOX_EDGE_OPS_UNIT(neon_bf16) { return &thox_edge_ops_cpu::unit_table; }

#endif
