#include <cassert>

// The same on the device, where assert() keeps the name of the file.
namespace {
__device__ const char text[] = __FILE__ " " __DATE__ " " __TIME__ " " __TIMESTAMP__;
__global__ void stamp_kernel(char* to, int n) {
  assert(n >= 0);
  int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n && i < int(sizeof(text))) to[i] = text[i];
}
}  // namespace

extern "C" const char* stamp_text(int n) {
  stamp_kernel<<<1, 64>>>(nullptr, n);
  return __FILE__ " " __DATE__ " " __TIME__ " " __TIMESTAMP__;
}
