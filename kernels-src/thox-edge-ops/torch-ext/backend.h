// The backend that this library is compiled for, under one name.
#pragma once

#if defined(CUDA_KERNEL)
#include "edge_ops_cuda.h"
#define BACKEND_KEY CUDA
namespace backend = thox_edge_ops_cuda;
#elif defined(METAL_KERNEL)
#include "edge_ops_metal.h"
#define BACKEND_KEY MPS
namespace backend = thox_edge_ops_metal;
#else
#include "edge_ops_cpu.h"
#define BACKEND_KEY CPU
namespace backend = thox_edge_ops_cpu;
#endif
