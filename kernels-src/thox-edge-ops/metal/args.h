// What the host passes to the shaders: plain structs, compiled on both sides.
//
// All sizes and strides count elements. `long` has 64 bits in the Metal Shading
// Language and on every Mac.
#pragma once

namespace thox_edge_ops_metal {

enum Width : int {
  kLanes = 32,      // threads of a simdgroup on every Apple GPU
  kVector = 4,      // elements of one access
  kMaxSlices = 32,  // sums of a row that one simdgroup can add up
};

// The order of additions is a property of a row's length alone: slice s sums
// the vectors 32 (s + i slices) + lane for i = 0, 1, ..., the slices are added
// by one simdgroup. How many simdgroups share the slices is free.
struct NormParams {
  long rows;
  long out_stride, x_stride, residual_stride;  // between rows
  int cols;
  int slices;          // at most kMaxSlices
  int rows_per_group;  // of a threadgroup; its simdgroups are shared out evenly
  int aligned;         // every vector of every row may be read in one access
  float inverse_cols, eps, weight_offset;
};

struct GateParams {
  long out_stride, x_stride;  // between rows
  int cols;                   // of the output
  int aligned;
};

struct RotaryParams {
  long q_token_stride, q_head_stride, k_token_stride, k_head_stride;
  long position_stride, cache_rows, cache_stride;
  int q_heads, k_heads, head_dim, half_dim;  // half_dim: pairs that are rotated
  int positions_are_int64, cache_is_float32, interleaved;
  int aligned;
};

struct PrologueParams {
  RotaryParams rotary;
  int slices;
  float inverse_dim, eps, weight_offset;
};

}  // namespace thox_edge_ops_metal
