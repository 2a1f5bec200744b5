// What the binding asks of torch, in the words of torch's C++ interface: a
// library that includes this loads in the torch release that it was compiled
// for. stable_api.h has the same names for a library that loads in any.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <c10/util/MaybeOwned.h>
#include <torch/library.h>

#include "backend.h"

#if defined(CUDA_KERNEL)
#include <ATen/cuda/EmptyTensor.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#elif defined(METAL_KERNEL)
#include <ATen/ops/empty.h>
#else
#include "parallel.h"
#endif

namespace {
namespace api {

using at::Tensor;
using IntArrayRef = at::IntArrayRef;
using at::kBFloat16;
using at::kFloat;
using at::kHalf;
using at::kInt;
using at::kLong;

// A tensor itself, without counting a reference, or a copy of it.
using Walked = c10::MaybeOwned<Tensor>;

// Sizes to be filled in, without an allocation for usual ranks.
using Sizes = c10::SmallVector<int64_t, 6>;

using at::assert_no_overlap;
using at::assert_no_partial_overlap;

bool overlaps_itself(const Tensor& t) { return at::has_internal_overlap(t) == at::MemOverlap::Yes; }

#if defined(CUDA_KERNEL)

// Calls launch(stream) on the tensor's device and turns its error into ours.
template <class Launch>
void on_device(const char* op, const Tensor& on, Launch launch) {
  const c10::DeviceIndex device = on.get_device();
  c10::cuda::OptionalCUDAGuard guard;
  if (device != c10::cuda::current_device()) guard.set_index(device);
  const int error = launch(static_cast<void*>(c10::cuda::getCurrentCUDAStream(device).stream()));
  TORCH_CHECK(error == 0, op, ": the launch failed: ", cudaGetErrorString(static_cast<cudaError_t>(error)));
}

// What at::empty does for a CUDA tensor, without a second trip through the
// dispatcher.
Tensor new_empty(at::IntArrayRef sizes, const Tensor& like) {
  return Tensor(at::detail::empty_cuda(sizes, like.scalar_type(), like.device(), std::nullopt));
}

#elif defined(METAL_KERNEL)

// Calls launch, which encodes on torch's current MPS stream by itself.
template <class Launch>
void on_device(const char* op, const Tensor&, Launch launch) {
  const char* const error = launch(nullptr);
  TORCH_CHECK(error == nullptr, op, ": ", error);
}

Tensor new_empty(at::IntArrayRef sizes, const Tensor& like) { return at::empty(sizes, like.options()); }

#else

template <class Launch>
void on_device(const char* op, const Tensor&, Launch launch) {
  static const char* const no_unit = backend::select_unit();
  TORCH_CHECK(no_unit == nullptr, op, ": ", no_unit);
  launch(parallel);
}

// What at::empty does for a CPU tensor, without a second trip through the
// dispatcher.
Tensor new_empty(at::IntArrayRef sizes, const Tensor& like) {
  return Tensor(at::detail::empty_cpu(sizes, like.scalar_type()));
}

#endif

#if defined(METAL_KERNEL)

// An MPS tensor is a Metal buffer, which the storage's pointer stands for, and
// an offset. Its data_ptr() adds the two up and is good for nothing.
backend::Buffer mutable_data(const Tensor& t) {
  return {t.storage().mutable_data(), t.storage_offset() * static_cast<int64_t>(t.itemsize())};
}
backend::Buffer const_data(const Tensor& t) {
  return {const_cast<void*>(t.storage().data()), t.storage_offset() * static_cast<int64_t>(t.itemsize())};
}

#else

void* mutable_data(const Tensor& t) { return t.data_ptr(); }
const void* const_data(const Tensor& t) { return t.const_data_ptr(); }

#endif

// The operators have no backward pass: computing on would give a result that
// silently does not depend on its inputs.
template <class... Tensors>
void check_no_grad(const char* op, const Tensors&... tensors) {
  if (C10_LIKELY(!c10::GradMode::is_enabled())) return;
  TORCH_CHECK_NOT_IMPLEMENTED(!(tensors.requires_grad() || ...), op,
                              " has no backward pass, but an input requires a gradient; call it under "
                              "torch.no_grad() or torch.inference_mode(), or use the functions of `reference`");
}

// Autograd's kernels are passed by, so the version that it looks at is kept
// here.
void wrote_to(const Tensor& t) {
  if (!t.is_inference()) t.unsafeGetTensorImpl()->bump_version();
}

}  // namespace api
}  // namespace
