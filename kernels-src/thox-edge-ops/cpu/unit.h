// A unit: the row primitives compiled for one instruction set.
//
// A unit is one translation unit and exports one function. Everything else in
// it is in an anonymous namespace, and it includes no header that could emit
// an inline function: were such a function compiled with -mavx2 here and
// without it elsewhere, the linker would keep one of the two copies for the
// whole library, and a host without AVX2 could run the wrong one.
#pragma once

#include "edge_ops_cpu.h"

// For the helpers of a unit: never out of line, whatever the optimization.
#define THOX_INLINE inline __attribute__((always_inline))

namespace thox_edge_ops_cpu {

// 16-bit elements. They have no functions: a unit converts them itself.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

// Row primitives, by element type. Each works on the units [begin, end) of one
// call, so that a call can be divided among threads.
struct Unit {
  const char* name;

  // Units are rows.
  using Norm = void (*)(const NormArgs&, int64_t begin, int64_t end);
  Norm norm[3];      // residual is null
  Norm add_norm[3];  // residual is not null

  // Units are blocks of kGateBlock columns, row by row.
  using Gate = void (*)(const GateArgs&, int64_t begin, int64_t end);
  Gate gate[2][3];  // by Act

  // Units are heads: the q heads of a token, then its k heads.
  using Rotary = void (*)(const RotaryArgs&, int64_t begin, int64_t end);
  Rotary rotary[2][2][3];  // by cache_is_float32, interleaved

  using Prologue = void (*)(const PrologueArgs&, int64_t begin, int64_t end);
  Prologue prologue[2][2][3];  // by cache_is_float32, interleaved
};

// Columns per unit of work of the gates. A multiple of every vector's length.
constexpr int64_t kGateBlock = 1024;

}  // namespace thox_edge_ops_cpu

// The entry of each unit. Only the dispatcher calls one, after it has seen
// that the host has every feature that the unit's flags enable.
#define THOX_EDGE_OPS_UNIT(NAME)                               \
  extern "C" __attribute__((visibility("hidden")))             \
  const thox_edge_ops_cpu::Unit* thox_edge_ops_unit_##NAME(void)

THOX_EDGE_OPS_UNIT(baseline);
THOX_EDGE_OPS_UNIT(avx2);
THOX_EDGE_OPS_UNIT(avx512);
THOX_EDGE_OPS_UNIT(avx512_bf16);
THOX_EDGE_OPS_UNIT(neon_bf16);
