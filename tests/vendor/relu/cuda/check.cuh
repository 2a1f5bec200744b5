#pragma once

#include <cuda_runtime.h>

static inline int check(cudaError_t e) { return e == cudaSuccess; }
