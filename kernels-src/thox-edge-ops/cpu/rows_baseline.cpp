// The unit that every host of the architecture can run: SSE2 on x86-64, NEON
// on aarch64.
#include "unit.h"

#if defined(__aarch64__)
#include "vec_neon.h"
#elif defined(__x86_64__)
#include "vec_sse2.h"
#else
#error "thox-edge-ops has CPU units for x86-64 and aarch64"
#endif

#include "lanes.h"
#include "rows.h"

namespace thox_edge_ops_cpu {
namespace {
THOX_DEFINE_UNIT(baseline)
}
}  // namespace thox_edge_ops_cpu

THOX_EDGE_OPS_UNIT(baseline) { return &thox_edge_ops_cpu::unit_table; }
