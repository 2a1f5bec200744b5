#include <torch/library.h>
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include "registration.h"
#include "scale.h"

static at::Tensor scaled(const at::Tensor& x, double factor) {
  TORCH_CHECK(x.is_cuda() && x.scalar_type() == at::kFloat && x.is_contiguous());
  c10::cuda::CUDAGuard guard(x.device());
  at::Tensor y = at::empty_like(x);
  TORCH_CHECK(at::cuda::getCurrentDeviceProperties()->major >= 8, "needs an Ampere GPU or newer");
  C10_CUDA_CHECK(scale(y.mutable_data_ptr<float>(), x.const_data_ptr<float>(), float(factor), x.numel(), at::cuda::getCurrentCUDAStream()));
  return y;
}

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, m) { m.def("scaled(Tensor x, float factor) -> Tensor"); }
TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, m) { m.impl("scaled", scaled); }
REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
