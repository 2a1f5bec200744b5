// Launch functions of the Metal backend: buffers with offsets, sizes, strides.
//
// A tensor of torch's MPS device is a Metal buffer and an offset into it, not
// an address. Each function encodes its work on torch's current MPS stream,
// never waits for it, and returns null or what went wrong. Empty inputs encode
// nothing.
#pragma once

#include <cstddef>

#include "../edge_ops_args.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

namespace thox_edge_ops_metal {

struct Buffer {
  void* buffer = nullptr;  // id<MTLBuffer>; its start is aligned to a page
  int64_t offset = 0;      // of the first element, in bytes

  Buffer(std::nullptr_t = nullptr) {}
  Buffer(void* buffer, int64_t offset) : buffer(buffer), offset(offset) {}
};

using namespace thox_edge_ops;
using NormArgs = BasicNormArgs<Buffer, Buffer>;
using GateArgs = BasicGateArgs<Buffer, Buffer>;
using RotaryArgs = BasicRotaryArgs<Buffer, Buffer>;
using PrologueArgs = BasicPrologueArgs<Buffer, Buffer>;

// The stream is torch's current one. The message is valid until the thread's
// next call.
const char* rms_norm(const NormArgs& args, DType dtype, std::nullptr_t stream);
const char* act_and_mul(const GateArgs& args, Act act, DType dtype, std::nullptr_t stream);
const char* rotary_embedding(const RotaryArgs& args, DType dtype, std::nullptr_t stream);
const char* qk_norm_rope(const PrologueArgs& args, DType dtype, std::nullptr_t stream);

}  // namespace thox_edge_ops_metal

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
