// Torch's thread pool for the CPU backend.
//
// at::parallel_for is a template: it starts threads only where the including
// file is compiled with OpenMP, and then calls the run time library of that
// compiler, which clang's is not torch's. GOMP_parallel is what it comes down
// to in a torch that was built by GCC. Referring to it weakly finds the one
// that torch itself uses, since libtorch_cpu.so depends on it; a torch
// without it gives a null pointer, and the work is done by the calling thread.
#pragma once

#include <ATen/Parallel.h>
#include <c10/util/ParallelGuard.h>

#include "edge_ops_cpu.h"

#if defined(__linux__)
extern "C" {
__attribute__((weak)) void GOMP_parallel(void (*fn)(void*), void* data, unsigned num_threads, unsigned flags);
__attribute__((weak)) int omp_get_thread_num();
__attribute__((weak)) int omp_get_num_threads();
}
#endif

namespace {

#if defined(__linux__)

struct Team {
  int64_t units, parts;
  thox_edge_ops_cpu::Body body;
  const void* ctx;
};

// Runs in every thread of the team. Its size is OpenMP's to choose, so a team
// smaller than the number of parts has threads with more than one.
void run_parts(void* data) {
  const Team& team = *static_cast<const Team*>(data);
  const int64_t threads = std::min<int64_t>(omp_get_num_threads(), team.parts);
  const int64_t size = (team.units + threads - 1) / threads;
  const int64_t begin = omp_get_thread_num() * size;
  if (begin >= team.units) return;
  c10::ParallelGuard in_parallel(true);
  team.body(team.ctx, begin, std::min(team.units, begin + size));
}

void parallel(int64_t units, int64_t grain, thox_edge_ops_cpu::Body body, const void* ctx) {
  const int64_t parts = (units + grain - 1) / grain;
  if (parts < 2 || GOMP_parallel == nullptr || at::get_num_threads() == 1 || at::in_parallel_region()) {
    return body(ctx, 0, units);
  }
  at::internal::lazy_init_num_threads();
  Team team{units, parts, body, ctx};
  // 0 is the team that set_num_threads chose: asking for another size would
  // throw the pool away and start a new one.
  GOMP_parallel(run_parts, &team, 0, 0);
}

#else

void parallel(int64_t units, int64_t grain, thox_edge_ops_cpu::Body body, const void* ctx) {
  at::parallel_for(0, units, grain, [&](int64_t begin, int64_t end) { body(ctx, begin, end); });
}

#endif

}  // namespace
