#include "fibres.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

namespace harness {
namespace {

enum class Wait { kNone, kSimdSum, kSimdBarrier, kThreadgroupBarrier, kDone };

constexpr size_t kStack = 64 * 1024;
constexpr int kMost = 1024;

struct Fibre {
  ucontext_t context;
  Wait wait = Wait::kNone;
  float value = 0;  // handed to simd_sum, and what it returns
};

Fibre fibres[kMost];
char* stacks = nullptr;
ucontext_t scheduler;
int running = -1;
const std::function<void(uint32_t)>* the_body = nullptr;
char context_name[256] = "?";
uint32_t seed = 1;

uint32_t next_random() {
  seed ^= seed << 13, seed ^= seed >> 17, seed ^= seed << 5;
  return seed;
}

void enter() {
  (*the_body)(uint32_t(running));
  fibres[running].wait = Wait::kDone;
  swapcontext(&fibres[running].context, &scheduler);
}

// Gives the CPU back until the others have come to the same place.
void block(Wait wait) {
  fibres[running].wait = wait;
  swapcontext(&fibres[running].context, &scheduler);
}

void order_of(Order order, std::vector<int>& items) {
  std::iota(items.begin(), items.end(), 0);
  if (order == Order::kBackward) std::reverse(items.begin(), items.end());
  if (order == Order::kShuffled) {
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[next_random() % i]);
  }
}

// The hardware's order of additions is not documented; this is one of many,
// and the lanes all get the same bits.
void sum_lanes(Fibre* lanes) {
  float v[kSimdWidth];
  for (int i = 0; i < kSimdWidth; ++i) v[i] = lanes[i].value;
  for (int step = kSimdWidth / 2; step > 0; step /= 2) {
    for (int i = 0; i < step; ++i) v[i] += v[i + step];
  }
  for (int i = 0; i < kSimdWidth; ++i) lanes[i].value = v[0];
}

// Runs one simdgroup until all of its lanes wait for the threadgroup or are done.
void run_simdgroup(int first, Order order) {
  std::vector<int> lanes(kSimdWidth);
  for (;;) {
    order_of(order, lanes);
    for (int lane : lanes) {
      Fibre& f = fibres[first + lane];
      if (f.wait != Wait::kNone) continue;
      running = first + lane;
      swapcontext(&scheduler, &f.context);
    }
    const Wait at = fibres[first].wait;
    for (int i = 1; i < kSimdWidth; ++i) {
      const Wait other = fibres[first + i].wait;
      if (other == at) continue;
      const bool simd = at == Wait::kSimdSum || at == Wait::kSimdBarrier || other == Wait::kSimdSum ||
                        other == Wait::kSimdBarrier;
      fail(simd ? "the lanes of a simdgroup diverge around a simdgroup function"
                : "some lanes of a simdgroup never reach the threadgroup barrier");
    }
    if (at == Wait::kThreadgroupBarrier || at == Wait::kDone) return;
    if (at == Wait::kSimdSum) sum_lanes(fibres + first);
    for (int i = 0; i < kSimdWidth; ++i) fibres[first + i].wait = Wait::kNone;
  }
}

}  // namespace

void set_context(const char* name) { std::snprintf(context_name, sizeof context_name, "%s", name); }

void fail(const char* message) {
  std::printf("FAIL %s: %s\n", context_name, message);
  std::fflush(stdout);
  _exit(1);
}

void run_threadgroup(int threads, Order order, const std::function<void(uint32_t)>& body) {
  if (threads < kSimdWidth || threads > kMost || threads % kSimdWidth != 0) {
    fail("a threadgroup must have 32, 64, ... 1024 threads");
  }
  if (stacks == nullptr) {
    void* p = mmap(nullptr, kStack * kMost, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) fail("no memory for stacks");
    stacks = static_cast<char*>(p);
  }
  the_body = &body;
  for (int i = 0; i < threads; ++i) {
    Fibre& f = fibres[i];
    f.wait = Wait::kNone;
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = stacks + kStack * size_t(i);
    f.context.uc_stack.ss_size = kStack;
    f.context.uc_link = nullptr;
    makecontext(&f.context, enter, 0);
  }
  std::vector<int> groups(size_t(threads / kSimdWidth));
  for (;;) {
    order_of(order, groups);
    for (int g : groups) run_simdgroup(g * kSimdWidth, order);
    int done = 0;
    for (int i = 0; i < threads; i += kSimdWidth) done += fibres[i].wait == Wait::kDone;
    if (done == threads / kSimdWidth) return;
    if (done != 0) fail("some simdgroups never reach the threadgroup barrier");
    for (int i = 0; i < threads; ++i) fibres[i].wait = Wait::kNone;
  }
}

}  // namespace harness

namespace metal {

enum class mem_flags { mem_none, mem_device, mem_threadgroup };

float simd_sum(float v) {
  harness::fibres[harness::running].value = v;
  harness::block(harness::Wait::kSimdSum);
  return harness::fibres[harness::running].value;
}

void simdgroup_barrier(mem_flags) { harness::block(harness::Wait::kSimdBarrier); }
void threadgroup_barrier(mem_flags) { harness::block(harness::Wait::kThreadgroupBarrier); }

}  // namespace metal
