// Host side of a launch: dtype dispatch, alignment tests, device facts.
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdlib.h>

#include "edge_ops_cuda.h"

namespace thox_edge_ops_cuda {
namespace {

constexpr int kMaxDevices = 64;

// What a launch needs to know about the current device, read once per device.
struct Device {
  int sms;
  int threads;  // that one multiprocessor can hold
  bool dependent_launch;
};

inline int current_device(Device* out) {
  static Device known[kMaxDevices];
  static bool ready[kMaxDevices];
  int id = 0;
  if (cudaError_t err = cudaGetDevice(&id)) return err;
  if (id < 0 || id >= kMaxDevices) return cudaErrorInvalidDevice;
  // A race writes the same values twice, which is harmless.
  if (!__atomic_load_n(&ready[id], __ATOMIC_ACQUIRE)) {
    int sms = 0, threads = 0, major = 0;
    if (cudaError_t err = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, id)) return err;
    if (cudaError_t err = cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, id)) return err;
    if (cudaError_t err = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, id)) return err;
    const char* off = getenv("THOX_EDGE_OPS_CUDA_PDL");
    known[id] = {sms, threads, major >= 9 && !(off && off[0] == '0')};
    __atomic_store_n(&ready[id], true, __ATOMIC_RELEASE);
  }
  *out = known[id];
  return cudaSuccess;
}

// Launches kernel<<<grid, block, shared, stream>>>(args), as a programmatic
// dependent launch where the device has it.
template <typename Args>
int launch(void (*kernel)(Args), dim3 grid, dim3 block, size_t shared, void* stream, const Device& device,
           const Args& args) {
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &attribute;
  config.numAttrs = device.dependent_launch ? 1 : 0;
  void* pointers[] = {const_cast<Args*>(&args)};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), pointers);
}

inline bool aligned16(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

// True where row starts `stride` elements apart stay on 16-byte boundaries.
inline bool stride16(int64_t stride, int vec) { return stride % vec == 0; }

inline int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace
}  // namespace thox_edge_ops_cuda
