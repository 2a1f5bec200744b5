// A short way from Python to the operators, on the CPU and on CUDA.
//
// Torch's own way costs a microsecond a call: Python boxes the arguments, the
// dispatcher looks for a kernel, a wrapper unboxes them. At one token that is
// most of the time. An entry of this file is a C function for Python that
// takes the tensors out of their Python objects and calls the operator, but
// only where the dispatcher would have nothing to do on the way:
//
// - every tensor is a torch.Tensor or a Parameter, no subclass, and a plain
//   tensor of the backend: no functorch wrapper, no negated view, no sparse or
//   meta tensor;
// - no mode, tracer, autocast or functorch layer is active on the thread, no
//   gradient is wanted, and no profiler or other observer listens;
// - numbers are exactly float, int or bool.
//
// Everything else goes to the registered operator, which the entry holds on
// to. torch.compile and export never see an entry, since the Python functions
// call the registered operator while tracing.
//
// Python's C functions are declared here under names of our own: all are part
// of the stable ABI since 3.2, and METH_FASTCALL means the same since 3.7. Two
// things are not promised by any header, so bind() tries them out and leaves
// the entries off where they do not hold: the place of the tensor in its
// Python object, and the function of libtorch_python.so, which extensions do
// not link with, that makes a Python object of a tensor.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#if defined(__linux__)

#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace eager {

// The head of every Python object.
struct Object {
  intptr_t references;
  const void* type;
};
using Function = Object* (*)(Object* self, Object* const* args, intptr_t n);
struct Method {
  const char* name;
  Function call;
  int flags;
  const char* doc;
};
constexpr int kFastCall = 0x80;  // METH_FASTCALL

extern "C" {
Object* py_new_function(Method*, Object* self, Object* module) __asm__("PyCFunction_NewEx");
Object* py_import(const char* name) __asm__("PyImport_ImportModule");
Object* py_get(Object*, const char* name) __asm__("PyObject_GetAttrString");
int py_set(Object*, const char* name, Object* value) __asm__("PyObject_SetAttrString");
Object* py_call(Object*, Object* tuple) __asm__("PyObject_CallObject");
Object* py_tuple(intptr_t size) __asm__("PyTuple_New");
int py_tuple_set(Object*, intptr_t i, Object* stolen) __asm__("PyTuple_SetItem");
double py_double(Object*) __asm__("PyFloat_AsDouble");
long long py_long_long(Object*, int* overflow) __asm__("PyLong_AsLongLongAndOverflow");
Object* py_error() __asm__("PyErr_Occurred");
void py_raise(Object* type, const char* text) __asm__("PyErr_SetString");
void py_clear() __asm__("PyErr_Clear");
void py_keep(Object*) __asm__("Py_IncRef");
void py_drop(Object*) __asm__("Py_DecRef");
void* py_release_lock() __asm__("PyEval_SaveThread");
void py_take_lock(void*) __asm__("PyEval_RestoreThread");
int py_ensure_lock() __asm__("PyGILState_Ensure");
void py_end_lock(int) __asm__("PyGILState_Release");
extern Object py_none __asm__("_Py_NoneStruct");
extern Object py_true __asm__("_Py_TrueStruct");
extern Object py_false __asm__("_Py_FalseStruct");
extern Object py_float_type __asm__("PyFloat_Type");
extern Object py_int_type __asm__("PyLong_Type");
extern Object* py_runtime_error __asm__("PyExc_RuntimeError");

// Weak: they are in libc, in libdl where that is old, or the entries stay off.
__attribute__((weak)) void* dlopen(const char*, int);
__attribute__((weak)) void* dlsym(void*, const char*);
}

// What bind() found out.
inline const void* tensor_type = nullptr;
inline const void* parameter_type = nullptr;
inline size_t tensor_at = 0;  // in bytes, of the tensor in its Python object
inline Object* (*wrap)(const at::TensorBase&) = nullptr;

using at::Tensor;

inline Tensor& tensor_of(Object* o) {
  return *reinterpret_cast<Tensor*>(reinterpret_cast<char*>(o) + tensor_at);
}

// An argument of the type that an operator declares it with.
template <class A>
struct Arg;

template <>
struct Arg<Tensor&> {
  static bool fits(Object* o) { return o->type == tensor_type || o->type == parameter_type; }
  static Tensor& get(Object* o) { return tensor_of(o); }
};
template <>
struct Arg<const Tensor&> : Arg<Tensor&> {};
template <>
struct Arg<double> {
  static bool fits(Object* o) { return o->type == &py_float_type; }
  static double get(Object* o) { return py_double(o); }
};
template <>
struct Arg<int64_t> {
  static bool fits(Object* o) {
    int overflow = 0;
    return o->type == &py_int_type && (py_long_long(o, &overflow), overflow == 0);
  }
  static int64_t get(Object* o) {
    int overflow;
    return py_long_long(o, &overflow);
  }
};
template <>
struct Arg<bool> {
  static bool fits(Object* o) { return o == &py_true || o == &py_false; }
  static bool get(Object* o) { return o == &py_true; }
};

// What a call's tensors have in common.
struct Seen {
  uint64_t keys = 0;
  int64_t elements = 0;  // of the largest
  bool requires_grad = false;

  void tensor(const Tensor& t) {
    keys |= t.key_set().raw_repr();
    elements = std::max<int64_t>(elements, t.numel());
    if (c10::GradMode::is_enabled()) requires_grad |= t.requires_grad();
  }
};

template <class A>
void look_at(Seen& seen, Object* o) {
  if constexpr (std::is_same_v<A, Tensor&> || std::is_same_v<A, const Tensor&>) seen.tensor(tensor_of(o));
}

#if defined(CUDA_KERNEL)
constexpr c10::DispatchKeySet kBackend{c10::DispatchKey::CUDA, c10::DispatchKey::AutogradCUDA};
constexpr int64_t kLongCall = 0;  // a launch waits where the queue is full
#else
constexpr c10::DispatchKeySet kBackend{c10::DispatchKey::CPU, c10::DispatchKey::AutogradCPU};
constexpr int64_t kLongCall = 16384;
#endif

// True where the dispatcher would go straight to the backend's kernel. What it
// passes by on the way has no kernel of ours, or is only there for factories.
inline bool plain(const Seen& seen) {
  constexpr c10::DispatchKeySet passed_by =
      kBackend | c10::DispatchKeySet{c10::DispatchKey::ADInplaceOrView, c10::DispatchKey::BackendSelect};
  const auto local = c10::impl::tls_local_dispatch_key_set();
  const uint64_t keys = (seen.keys | local.included_.raw_repr()) & ~local.excluded_.raw_repr();
  return (keys & ~passed_by.raw_repr()) == 0 && !seen.requires_grad && !at::impl::torch_function_mode_enabled() &&
         !at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value();
}

// Lets other Python threads run during a call of kLongCall elements and more,
// as torch does in every call.
class Unlocked {
 public:
  explicit Unlocked(bool wanted) : state_(wanted ? py_release_lock() : nullptr) {}
  ~Unlocked() { take_back(); }
  void take_back() {
    if (state_) py_take_lock(std::exchange(state_, nullptr));
  }

 private:
  void* state_;
};

inline Object* as_registered(Object* registered, Object* const* args, intptr_t n) {
  Object* const tuple = py_tuple(n);
  if (!tuple) return nullptr;
  for (intptr_t i = 0; i < n; ++i) {
    py_keep(args[i]);
    py_tuple_set(tuple, i, args[i]);
  }
  Object* const result = py_call(registered, tuple);
  py_drop(tuple);
  return result;
}

template <class R, class... A, size_t... I>
Object* call(R (*op)(A...), Object* const* args, const Seen& seen, std::index_sequence<I...>) {
  const std::tuple<A...> values{Arg<A>::get(args[I])...};
  try {
    Unlocked unlocked(seen.elements >= kLongCall);
    if constexpr (std::is_void_v<R>) {
      op(std::get<I>(values)...);
      unlocked.take_back();
      py_keep(&py_none);
      return &py_none;
    } else {
      const R result = op(std::get<I>(values)...);
      unlocked.take_back();
      return wrap(result);
    }
  } catch (const c10::Error& e) {
    py_raise(py_runtime_error, e.what_without_backtrace());
  } catch (const std::exception& e) {
    py_raise(py_runtime_error, e.what());
  }
  return nullptr;
}

template <class R, class... A, size_t... I>
Object* enter(R (*op)(A...), Object* registered, Object* const* args, intptr_t n, std::index_sequence<I...> all) {
  if (n == sizeof...(A) && (Arg<A>::fits(args[I]) && ...)) {
    Seen seen;
    (look_at<A>(seen, args[I]), ...);
    if (plain(seen)) return call(op, args, seen, all);
  }
  return as_registered(registered, args, n);
}

template <class R, class... A>
constexpr std::index_sequence_for<A...> arguments(R (*)(A...)) {
  return {};
}

// The C function of an operator; self is the registered one.
template <auto kOp>
Object* entry(Object* self, Object* const* args, intptr_t n) {
  return enter(kOp, self, args, n, arguments(kOp));
}

// Finds what the entries need; false where it is not as expected.
inline bool prepare() {
  constexpr int kLazy = 1, kNoLoad = 4;
  if (tensor_at) return true;
  if (!dlopen || !dlsym) return false;
  void* const library = dlopen("libtorch_python.so", kLazy | kNoLoad);
  if (!library) return false;
  wrap = reinterpret_cast<decltype(wrap)>(dlsym(library, "_Z16THPVariable_WrapRKN2at10TensorBaseE"));
  Object* const torch = py_import("torch");
  Object* const nn = py_import("torch.nn");
  if (!wrap || !torch || !nn) return false;
  tensor_type = py_get(torch, "Tensor");
  parameter_type = py_get(nn, "Parameter");
  if (!tensor_type || !parameter_type) return false;
  const Tensor sample(at::detail::empty_cpu({1}, at::kFloat));
  Object* const object = wrap(sample);
  if (!object || object->type != tensor_type) return false;
  const void* const implementation = sample.unsafeGetTensorImpl();
  for (size_t at = sizeof(Object); at <= sizeof(Object) + 8; at += 8) {
    if (memcmp(reinterpret_cast<char*>(object) + at, &implementation, sizeof(implementation)) == 0) tensor_at = at;
  }
  return tensor_at != 0;
}

// Puts an entry in the place of attribute `direct` of `owner`'s attribute
// `name`, where there is one; the entry keeps what was there.
inline bool bind_one(Object* owner, Method& method, const std::string& name) {
  Object* const native = py_get(owner, name.c_str());
  Object* const registered = native ? py_get(native, "direct") : nullptr;
  Object* const function = registered ? py_new_function(&method, registered, nullptr) : nullptr;
  return function && py_set(native, "direct", function) == 0;
}

class Locked {
 public:
  Locked() : state_(py_ensure_lock()) {}
  ~Locked() { py_end_lock(state_); }

 private:
  int state_;
};

// Binds the methods' entries to `module`. False, without any trace in Python,
// where the entries cannot be used.
template <size_t N>
bool bind_all(const std::string& module, Method (&methods)[N]) {
  const Locked locked;
  bool bound = prepare();
  Object* const owner = bound ? py_import(module.c_str()) : nullptr;
  for (Method& method : methods) bound = bound && owner && bind_one(owner, method, std::string("_") + method.name);
  if (py_error()) py_clear();
  return bound;
}

}  // namespace eager

#endif  // __linux__
