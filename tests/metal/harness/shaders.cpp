// The .metal files, included as they are, and a table of their kernels.

#include "shaders.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "norm.metal"
#include "gate.metal"
#include "rotary.metal"
#include "prologue.metal"

#undef device
#undef constant
#undef threadgroup
#undef thread
#undef kernel

// The rounding of fp32 to bf16 that clang calls where the CPU has no
// instruction for it: to nearest even, a NaN stays one.
extern "C" __attribute__((weak)) bfloat __truncsfbf2(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, 4);
  uint16_t high;
  if ((bits & 0x7fffffff) > 0x7f800000) {
    high = uint16_t(bits >> 16 | 0x40);
  } else {
    high = uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  bfloat r;
  std::memcpy(&r, &high, 2);
  return r;
}

namespace harness {
namespace {

using namespace thox_edge_ops_metal;

// One thread's arguments: buffers as addresses, and the built-in values.
struct Call {
  const void* params;
  void* at[6];
  float* partial;
  uint3 group, threads;
  uint index, lane, simdgroup, simdgroups;

  template <class T>
  T* buffer(int i) const {
    return static_cast<T*>(at[i]);
  }
  template <class P>
  const P& as() const {
    return *static_cast<const P*>(params);
  }
};

struct Entry {
  const char* name;
  void (*call)(const Call&);
};

#define ENTRIES(NAME, T)                                                                                       \
  {"rms_norm_" #NAME,                                                                                          \
   [](const Call& c) {                                                                                         \
     rms_norm_##NAME(c.as<NormParams>(), c.buffer<T>(0), c.buffer<T>(1), c.buffer<T>(2), c.partial, c.group,   \
                     c.simdgroup, c.lane, c.simdgroups);                                                       \
   }},                                                                                                         \
      {"fused_add_rms_norm_" #NAME,                                                                            \
       [](const Call& c) {                                                                                     \
         fused_add_rms_norm_##NAME(c.as<NormParams>(), c.buffer<T>(0), c.buffer<T>(1), c.buffer<T>(2),         \
                                   c.buffer<T>(3), c.partial, c.group, c.simdgroup, c.lane, c.simdgroups);     \
       }},                                                                                                     \
      {"silu_and_mul_" #NAME,                                                                                  \
       [](const Call& c) {                                                                                     \
         silu_and_mul_##NAME(c.as<GateParams>(), c.buffer<T>(0), c.buffer<T>(1), c.group, c.index, c.threads); \
       }},                                                                                                     \
      {"gelu_tanh_and_mul_" #NAME,                                                                             \
       [](const Call& c) {                                                                                     \
         gelu_tanh_and_mul_##NAME(c.as<GateParams>(), c.buffer<T>(0), c.buffer<T>(1), c.group, c.index,        \
                                  c.threads);                                                                  \
       }},                                                                                                     \
      {"rotary_embedding_" #NAME,                                                                              \
       [](const Call& c) {                                                                                     \
         rotary_embedding_##NAME(c.as<RotaryParams>(), c.buffer<T>(0), c.buffer<T>(1), c.buffer<char>(2),      \
                                 c.buffer<char>(3), c.group, c.index, c.threads);                              \
       }},                                                                                                     \
  {                                                                                                            \
    "qk_norm_rope_" #NAME, [](const Call& c) {                                                                 \
      qk_norm_rope_##NAME(c.as<PrologueParams>(), c.buffer<T>(0), c.buffer<T>(1), c.buffer<char>(2),           \
                          c.buffer<char>(3), c.buffer<T>(4), c.buffer<T>(5), c.group, c.simdgroup, c.lane,     \
                          c.simdgroups);                                                                       \
    }                                                                                                          \
  }

const Entry kEntries[] = {ENTRIES(float32, float), ENTRIES(float16, half), ENTRIES(bfloat16, bfloat)};

// Threadgroup memory that ends at a page nobody may touch.
class Threadgroup {
 public:
  explicit Threadgroup(size_t bytes) : bytes_(bytes) {
    const size_t page = size_t(sysconf(_SC_PAGESIZE));
    const size_t used = (bytes + page - 1) / page * page;
    mapped_ = used + page;
    base_ = static_cast<char*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED || mprotect(base_ + used, page, PROT_NONE) != 0) fail("no threadgroup memory");
    memory_ = base_ + used - bytes;
  }
  ~Threadgroup() { munmap(base_, mapped_); }
  Threadgroup(const Threadgroup&) = delete;

  // Undefined at the start of a threadgroup: every float a NaN.
  float* fresh() {
    std::memset(memory_, 0xff, bytes_);
    return reinterpret_cast<float*>(memory_);
  }

 private:
  size_t bytes_, mapped_;
  char *base_, *memory_;
};

std::map<std::string, std::set<uint32_t>> sizes;  // threads of the threadgroups that ran, by operator

}  // namespace

void print_sizes() {
  for (const auto& [op, seen] : sizes) {
    std::printf("threadgroups of %s:", op.c_str());
    for (uint32_t threads : seen) std::printf(" %u", threads);
    std::printf("\n");
  }
}

void run(const Launch& launch, Order order, uint32_t threads) {
  if (launch.error != nullptr) fail(launch.error);
  if (launch.shader == nullptr) return;
  const Entry* entry = nullptr;
  for (const Entry& e : kEntries) {
    if (std::strcmp(e.name, launch.shader) == 0) entry = &e;
  }
  if (entry == nullptr) fail("the plan names a shader that does not exist");
  if (threads == 0) threads = launch.threads;
  uint32_t groups_x = launch.groups_x;
  if (threads != launch.threads && launch.fixed_threads) {
    // The host never does this: the grid is cut anew, for at least as much work.
    groups_x = (groups_x * launch.threads + threads - 1) / threads;
  } else if (threads % launch.thread_step != 0) {
    fail("the launch cannot be run with this many threads");
  }
  sizes[std::string(launch.shader, std::strrchr(launch.shader, '_') - launch.shader)].insert(threads);
  Call shared{};
  shared.params = launch.params;
  for (int i = 0; i < launch.buffer_count; ++i) {
    const Buffer& b = launch.buffers[i];
    shared.at[i] = static_cast<char*>(b.buffer) + b.offset;
  }
  shared.threads = uint3{threads, 1, 1};
  shared.simdgroups = threads / kSimdWidth;
  Threadgroup memory(launch.threadgroup_bytes);
  for (uint32_t y = 0; y < launch.groups_y; ++y) {
    for (uint32_t x = 0; x < groups_x; ++x) {
      shared.group = uint3{x, y, 0};
      shared.partial = memory.fresh();
      run_threadgroup(int(threads), order, [&](uint32_t index) {
        Call c = shared;
        c.index = index;
        c.lane = index % kSimdWidth;
        c.simdgroup = index / kSimdWidth;
        entry->call(c);
      });
    }
  }
}

}  // namespace harness
