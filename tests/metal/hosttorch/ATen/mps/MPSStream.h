// The part of torch's MPS stream that the host code uses. torch's own header
// cannot be read without Apple's frameworks.
#pragma once

#include <Metal/Metal.h>

typedef id<MTLDevice> MTLDevice_t;
typedef id<MTLComputeCommandEncoder> MTLComputeCommandEncoder_t;

namespace at::mps {

class MPSStream {
 public:
  dispatch_queue_t queue() const;
  MTLComputeCommandEncoder_t commandEncoder();
  MTLDevice_t device() const;
};

MPSStream* getCurrentMPSStream();

}  // namespace at::mps
