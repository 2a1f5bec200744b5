// The shaders as functions, and the grid that runs a planned launch.
#pragma once

#include "fibres.h"
#include "plan.h"

namespace harness {

// Runs the launch as a Mac would encode it. threads 0: the planned number per
// threadgroup; else another one that the launch may be run with.
void run(const thox_edge_ops_metal::Launch& launch, Order order, uint32_t threads = 0);

}  // namespace harness
