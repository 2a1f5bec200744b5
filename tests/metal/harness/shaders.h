// The shaders as functions, and the grid that runs a planned launch.
#pragma once

#include "fibres.h"
#include "plan.h"

namespace harness {

// Runs the launch as a Mac would encode it. threads 0: the planned number per
// threadgroup; else another one, for which the grid is cut anew.
void run(const thox_edge_ops_metal::Launch& launch, Order order, uint32_t threads = 0);

// Prints which numbers of threads each operator ran with.
void print_sizes();

}  // namespace harness
