// The names of torch_api.h in the words of torch's stable ABI, a C interface
// that only grows: a library that includes this loads in every torch from
// TORCH_TARGET_VERSION on.
//
// The stable ABI cannot ask whether a tensor requires a gradient, and cannot
// count a write for autograd. stable.py does both.
#pragma once

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "backend.h"

#if defined(METAL_KERNEL)
#error "the stable ABI does not give the buffer of an MPS tensor: build the metal backend without stable-abi"
#elif defined(CUDA_KERNEL)
#include <cuda_runtime_api.h>
#endif

namespace {
namespace api {

using IntArrayRef = torch::headeronly::IntHeaderOnlyArrayRef;
using Sizes = std::vector<int64_t>;

std::ostream& operator<<(std::ostream& out, IntArrayRef list) {
  const char* separator = "[";
  for (const int64_t i : list) out << separator << i, separator = ", ";
  return out << (list.size() == 0 ? "[]" : "]");
}

// An element type by the number that this process's torch has for it.
struct ScalarType {
  int32_t code;
  bool operator==(ScalarType other) const { return code == other.code; }
  bool operator!=(ScalarType other) const { return code != other.code; }
};

std::ostream& operator<<(std::ostream& out, ScalarType type) {
  const auto here = torch::stable::detail::from(type.code);
  return out << torch::stable::detail::to<torch::headeronly::ScalarType>(here);
}

const ScalarType kFloat{aoti_torch_dtype_float32()}, kHalf{aoti_torch_dtype_float16()},
    kBFloat16{aoti_torch_dtype_bfloat16()}, kLong{aoti_torch_dtype_int64()}, kInt{aoti_torch_dtype_int32()};

struct Device {
  int32_t type, index;
  bool operator==(Device other) const { return type == other.type && index == other.index; }
};

std::ostream& operator<<(std::ostream& out, Device device) {
  if (device.type == aoti_torch_device_type_cpu()) return out << "cpu";
  if (device.type == aoti_torch_device_type_cuda()) return out << "cuda:" << device.index;
  if (device.type == aoti_torch_device_type_meta()) return out << "meta";
  return out << "device type " << device.type << ':' << device.index;
}

// Throws what torch turns into Python's RuntimeError.
template <class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void refuse(const Parts&... parts) {
  std::ostringstream text;
  ((text << parts), ...);
  throw std::runtime_error(text.str());
}
#define TORCH_CHECK(condition, ...) \
  if (C10_UNLIKELY(!(condition))) api::refuse(__VA_ARGS__)

// A tensor, its handle borrowed from the caller or owned, and what the binding
// asks of it again and again.
class Tensor {
 public:
  explicit Tensor(AtenTensorHandle handle) : handle_(handle) {
    STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_dim(handle, &dim_));
    STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_sizes(handle, &sizes_));
    STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_strides(handle, &strides_));
    STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(handle, &dtype_.code));
    STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(handle, &device_.type));
    STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(handle, &device_.index));
    for (int64_t d = dim_; d-- > 0;) {
      contiguous_ = contiguous_ && (sizes_[d] == 1 || strides_[d] == numel_);
      numel_ *= sizes_[d];
    }
    contiguous_ = contiguous_ || numel_ == 0;
  }

  int64_t dim() const { return dim_; }
  int64_t numel() const { return numel_; }
  IntArrayRef sizes() const { return {sizes_, static_cast<size_t>(dim_)}; }
  IntArrayRef strides() const { return {strides_, static_cast<size_t>(dim_)}; }
  // Dimensions count from the end where they are negative.
  int64_t size(int64_t d) const { return sizes_[d < 0 ? d + dim_ : d]; }
  int64_t stride(int64_t d) const { return strides_[d < 0 ? d + dim_ : d]; }
  bool is_contiguous() const { return contiguous_; }
  ScalarType scalar_type() const { return dtype_; }
  Device device() const { return device_; }
  AtenTensorHandle get() const { return handle_; }
  AtenTensorHandle release() { return owned_.release(); }

  // Every argument comes with a handle of its own. The sizes lie inside what
  // handles of one tensor share.
  bool is_same(const Tensor& other) const { return sizes_ == other.sizes_; }

  void copy_(const Tensor& from) const { STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_copy_(handle_, from.handle_, 0)); }
  Tensor contiguous() const;

 private:
  friend Tensor new_empty(IntArrayRef sizes, const Tensor& like);

  struct Delete {
    void operator()(AtenTensorHandle handle) const { aoti_torch_delete_tensor_object(handle); }
  };

  AtenTensorHandle handle_;
  std::unique_ptr<AtenTensorOpaque, Delete> owned_;
  int64_t *sizes_, *strides_;
  int64_t dim_, numel_ = 1;
  ScalarType dtype_;
  Device device_;
  bool contiguous_ = true;
};

Tensor new_empty(IntArrayRef sizes, const Tensor& like) {
  Sizes strides(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
  AtenTensorHandle handle;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(),
                                                         strides.data(), like.dtype_.code, like.device_.type,
                                                         like.device_.index, &handle));
  std::unique_ptr<AtenTensorOpaque, Tensor::Delete> owned(handle);
  Tensor made(handle);
  made.owned_ = std::move(owned);
  return made;
}

Tensor Tensor::contiguous() const {
  Tensor made = new_empty(sizes(), *this);
  made.copy_(*this);
  return made;
}

// A tensor itself, or a copy of it.
class Walked {
 public:
  Walked() = default;
  static Walked borrowed(const Tensor& t) { return Walked(&t, nullptr); }
  static Walked owned(Tensor t) {
    auto held = std::make_unique<Tensor>(std::move(t));
    const Tensor* const at = held.get();
    return Walked(at, std::move(held));
  }
  const Tensor& operator*() const { return *at_; }
  const Tensor* operator->() const { return at_; }

 private:
  Walked(const Tensor* at, std::unique_ptr<Tensor> held) : at_(at), held_(std::move(held)) {}
  const Tensor* at_ = nullptr;
  std::unique_ptr<Tensor> held_;
};

void* mutable_data(const Tensor& t) {
  void* data;
  STABLE_TORCH_ERROR_CODE_CHECK(torch_get_mutable_data_ptr(t.get(), &data));
  return data;
}

const void* const_data(const Tensor& t) {
  const void* data;
  STABLE_TORCH_ERROR_CODE_CHECK(torch_get_const_data_ptr(t.get(), &data));
  return data;
}

// --- overlap, as ATen/MemoryOverlap.h decides it

bool overlaps_itself(const Tensor& t) {
  if (t.is_contiguous()) return false;
  for (int64_t d = 0; d < t.dim(); ++d) {
    if (t.stride(d) == 0 && t.size(d) > 1) return true;
  }
  return false;
}

// Whether the elements fill a range of memory, each place once.
bool is_dense(const Tensor& t) {
  if (t.is_contiguous()) return true;
  std::vector<int64_t> by_stride;
  for (int64_t d = 0; d < t.dim(); ++d) {
    if (t.size(d) != 1) by_stride.push_back(d);
  }
  std::sort(by_stride.begin(), by_stride.end(), [&](int64_t a, int64_t b) { return t.stride(a) < t.stride(b); });
  int64_t expected = 1;
  for (const int64_t d : by_stride) {
    if (t.stride(d) != expected) return false;
    expected *= t.size(d);
  }
  return true;
}

// 0 where the ranges of two tensors are apart or nothing is known, 2 where
// they are the same, 1 where one has a part of the other.
int overlap(const Tensor& a, const Tensor& b) {
  if (a.is_same(b)) return 2;
  if (a.numel() == 0 || b.numel() == 0 || !is_dense(a) || !is_dense(b)) return 0;
  const auto range = [](const Tensor& t, const char*& begin, const char*& end) {
    begin = static_cast<const char*>(const_data(t));
    end = begin + t.numel() * aoti_torch_dtype_element_size(t.scalar_type().code);
  };
  const char *a_begin, *a_end, *b_begin, *b_end;
  range(a, a_begin, a_end);
  range(b, b_begin, b_end);
  if (a_begin == b_begin && a_end == b_end) return a.strides() == b.strides() ? 2 : 1;
  return a_begin < b_end && b_begin < a_end ? 1 : 0;
}

constexpr char kOverlap[] =
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
    "location. Please clone() the tensor before performing the operation.";
void assert_no_overlap(const Tensor& a, const Tensor& b) { TORCH_CHECK(overlap(a, b) == 0, kOverlap); }
void assert_no_partial_overlap(const Tensor& a, const Tensor& b) { TORCH_CHECK(overlap(a, b) != 1, kOverlap); }

// --- running

#if defined(CUDA_KERNEL)

template <class Launch>
void on_device(const char* op, const Tensor& on, Launch launch) {
  const torch::stable::accelerator::DeviceGuard guard(on.device().index);
  void* stream;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(on.device().index, &stream));
  const int error = launch(stream);
  TORCH_CHECK(error == 0, op, ": the launch failed: ", cudaGetErrorString(static_cast<cudaError_t>(error)));
}

#else

// Torch's thread pool, through torch: nothing here knows how it is made.
void parallel(int64_t units, int64_t grain, backend::Body body, const void* ctx) {
  if (units <= grain) return body(ctx, 0, units);
  struct Work {
    backend::Body body;
    const void* ctx;
  } work{body, ctx};
  const auto part = [](int64_t begin, int64_t end, void* w) {
    static_cast<Work*>(w)->body(static_cast<Work*>(w)->ctx, begin, end);
  };
  STABLE_TORCH_ERROR_CODE_CHECK(torch_parallel_for(0, units, grain, part, &work));
}

template <class Launch>
void on_device(const char* op, const Tensor&, Launch launch) {
  static const char* const no_unit = backend::select_unit();
  TORCH_CHECK(no_unit == nullptr, op, ": ", no_unit);
  launch(parallel);
}

#endif

// Both are for stable.py to do.
template <class... Tensors>
void check_no_grad(const char*, const Tensors&...) {}
void wrote_to(const Tensor&) {}

// --- calls

// Passed<T> is what torch::stable passes where a function takes T; taken and
// given turn one into the other.
template <class T>
struct Passed {
  using type = T;
};
template <>
struct Passed<const Tensor&> {
  using type = const torch::stable::Tensor&;
};
template <>
struct Passed<Tensor> {
  using type = torch::stable::Tensor;
};
Tensor taken(const torch::stable::Tensor& t) { return Tensor(t.get()); }
template <class T>
T taken(T value) {
  return value;
}

// The function fn as TORCH_BOX takes it.
template <auto fn>
struct Call;
template <class R, class... Args, R (*fn)(Args...)>
struct Call<fn> {
  static typename Passed<R>::type call(typename Passed<Args>::type... args) {
    if constexpr (std::is_same_v<R, Tensor>) {
      return torch::stable::Tensor(fn(taken(args)...).release());
    } else {
      return fn(taken(args)...);
    }
  }
};

}  // namespace api
}  // namespace
