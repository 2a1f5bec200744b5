// Encodes the launches of plan.h on torch's MPS stream.
//
// The rules of that stream: its command buffer and encoder are touched only
// on its serial queue; its encoder is shared with torch's own kernels, so it is
// left open, and work that follows runs after ours. No wait and no commit: torch
// does both when a result is needed.

#include <ATen/mps/MPSStream.h>

#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include <exception>
#include <map>
#include <mutex>
#include <string>

// Written by the build: the compiled shaders as bytes, and createLibrary.
#include EMBEDDED_METALLIB_HEADER

#include "plan.h"

namespace thox_edge_ops_metal {
namespace {

// The compiled shaders, each made once per process and kept.
class Pipelines {
 public:
  // Null, and why in error, where the shader cannot be made.
  id<MTLComputePipelineState> find(id<MTLDevice> device, const char* shader, std::string& error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = made_.find(shader);
    if (known != made_.end()) return known->second;
    NSError* failure = nil;
    if (library_ == nil) library_ = EMBEDDED_METALLIB_NAMESPACE::createLibrary(device, &failure);
    if (library_ == nil) {
      error = "the embedded Metal library does not load: " + describe(failure);
      return nil;
    }
    id<MTLFunction> function = [library_ newFunctionWithName:[NSString stringWithUTF8String:shader]];
    if (function == nil) {
      error = std::string("the embedded Metal library has no shader ") + shader;
      return nil;
    }
    id<MTLComputePipelineState> pipeline = [device newComputePipelineStateWithFunction:function error:&failure];
#if !__has_feature(objc_arc)
    [function release];
#endif
    if (pipeline == nil) {
      error = std::string("no pipeline for ") + shader + ": " + describe(failure);
      return nil;
    }
    made_[shader] = pipeline;
    return pipeline;
  }

 private:
  static std::string describe(NSError* failure) {
    return failure == nil ? "no reason given" : std::string([[failure localizedDescription] UTF8String]);
  }

  std::mutex mutex_;
  id<MTLLibrary> library_ = nil;
  std::map<std::string, id<MTLComputePipelineState>> made_;
};

// Never destroyed: the driver may be gone before static destructors run.
Pipelines& pipelines() {
  static Pipelines* const p = new Pipelines;
  return *p;
}

// Empty, or why the launch was not encoded.
std::string encode(const Launch& launch) {
  at::mps::MPSStream* const stream = at::mps::getCurrentMPSStream();
  std::string error;
  id<MTLComputePipelineState> pipeline = pipelines().find(stream->device(), launch.shader, error);
  if (pipeline == nil) return error;
  if ([pipeline threadExecutionWidth] != kLanes) {
    return "this GPU's simdgroups have " + std::to_string([pipeline threadExecutionWidth]) + " threads, not 32";
  }
  NSUInteger threads = launch.threads;
  const NSUInteger most = [pipeline maxTotalThreadsPerThreadgroup];
  if (threads > most) {
    threads = launch.fixed_threads ? 0 : most / launch.thread_step * launch.thread_step;
    if (threads == 0) return std::string(launch.shader) + ": this GPU runs too few threads per threadgroup";
  }
  std::string* const failure = &error;
  dispatch_sync(stream->queue(), ^{
    @autoreleasepool {
      try {
        id<MTLComputeCommandEncoder> encoder = stream->commandEncoder();
        [encoder setComputePipelineState:pipeline];
        [encoder setBytes:launch.params length:launch.params_size atIndex:0];
        for (int i = 0; i < launch.buffer_count; ++i) {
          const Buffer& b = launch.buffers[i];
          [encoder setBuffer:(__bridge id<MTLBuffer>)b.buffer offset:NSUInteger(b.offset) atIndex:NSUInteger(i + 1)];
        }
        if (launch.threadgroup_bytes != 0) [encoder setThreadgroupMemoryLength:launch.threadgroup_bytes atIndex:0];
        [encoder dispatchThreadgroups:MTLSizeMake(launch.groups_x, launch.groups_y, 1)
                threadsPerThreadgroup:MTLSizeMake(threads, 1, 1)];
      } catch (const std::exception& e) {  // must not unwind through the queue's C code
        *failure = e.what();
      }
    }
  });
  return error;
}

const char* run(const Launch& launch) {
  if (launch.error != nullptr) return launch.error;
  if (launch.shader == nullptr) return nullptr;
  static thread_local std::string error;
  error = encode(launch);
  return error.empty() ? nullptr : error.c_str();
}

}  // namespace

const char* rms_norm(const NormArgs& args, DType dtype, std::nullptr_t) { return run(plan_norm(args, dtype)); }
const char* act_and_mul(const GateArgs& args, Act act, DType dtype, std::nullptr_t) {
  return run(plan_gate(args, act, dtype));
}
const char* rotary_embedding(const RotaryArgs& args, DType dtype, std::nullptr_t) {
  return run(plan_rotary(args, dtype));
}
const char* qk_norm_rope(const PrologueArgs& args, DType dtype, std::nullptr_t) {
  return run(plan_prologue(args, dtype));
}

}  // namespace thox_edge_ops_metal
