// One threadgroup's threads as fibres of one CPU thread.
#pragma once

#include <cstdint>
#include <functional>

namespace harness {

constexpr int kSimdWidth = 32;

// Order in which simdgroups, and the lanes within one, are run between two
// synchronizations. A result that depends on it is a race.
enum class Order { kForward, kBackward, kShuffled };

// Calls body(thread index) once for each of `threads` threads, which may
// synchronize through metal::simd_sum and the barriers. Exits the process with
// a message where a GPU's behaviour would be undefined: a barrier or a simdgroup
// function that some of the threads concerned never reach, or that they reach
// by different operations.
void run_threadgroup(int threads, Order order, const std::function<void(uint32_t)>& body);

// What is being run, for messages.
void set_context(const char* name);
[[noreturn]] void fail(const char* message);

}  // namespace harness
