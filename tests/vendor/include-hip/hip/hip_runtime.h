// As much of HIP's runtime as the kernel beside it uses, for the stand-in.
#pragma once

#define __global__ static
#define __device__
typedef struct ihipStream_t* hipStream_t;
typedef enum { hipSuccess = 0 } hipError_t;
struct dim3 {
  unsigned x;
  dim3(unsigned x) : x(x) {}
};
static inline hipError_t hipGetLastError() { return hipSuccess; }
#define hipLaunchKernelGGL(kernel, grid, block, shared, stream, ...) \
  ((void)(grid), (void)(block), (void)(shared), (void)(stream), kernel(__VA_ARGS__))

// What hipcc makes for each file with device code.
extern "C" void** __hipRegisterFatBinary(const void* data);
__attribute__((section(".hip_fatbin"), used)) static const char thox_fatbin[] = "no device code";
__attribute__((constructor)) static void thox_register() { __hipRegisterFatBinary(thox_fatbin); }
