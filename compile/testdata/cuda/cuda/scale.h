#pragma once
#include <cuda_runtime_api.h>
#include <cstdint>
// Writes factor * x into y, n elements, on the stream.
cudaError_t scale(float* y, const float* x, float factor, int64_t n, cudaStream_t stream);
