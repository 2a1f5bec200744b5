// The selected unit, for the drivers behind edge_ops_cpu.h.
#pragma once

#include "unit.h"

namespace thox_edge_ops_cpu {

// Only after select_unit() returned null.
__attribute__((visibility("hidden"))) const Unit& unit();

}  // namespace thox_edge_ops_cpu
