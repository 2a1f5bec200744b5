// The operators as torch sees them: schemas, validation, and the call of the
// backend that this library was compiled for. One text for both forms: with
// TORCH_TARGET_VERSION, which a build for the stable ABI defines, its words
// for torch come from stable_api.h, otherwise from torch_api.h.
//
// Everything is checked here, before any pointer arithmetic: rank, shape,
// dtype, device, overlap. A tensor whose strides a backend cannot walk (its
// last dimension has gaps, or its leading dimensions are no single stride
// apart) is copied, and copied back where it is written.

#if defined(TORCH_TARGET_VERSION)
#include "stable_api.h"
#else
#include "torch_api.h"
#if defined(CPU_KERNEL) || defined(CUDA_KERNEL)
#include "eager_entry.h"
#endif
#endif

#include "registration.h"

namespace {

using namespace api;

backend::DType dtype_of(const char* op, const Tensor& x) {
  if (x.scalar_type() == kFloat) return backend::kFloat32;
  if (x.scalar_type() == kHalf) return backend::kFloat16;
  TORCH_CHECK(x.scalar_type() == kBFloat16, op, ": expected float32, float16 or bfloat16, got ", x.scalar_type());
  return backend::kBFloat16;
}

void check_like(const char* op, const char* name, const Tensor& t, const Tensor& x) {
  TORCH_CHECK(t.scalar_type() == x.scalar_type(), op, ": ", name, " must have the dtype ", x.scalar_type(),
              " of the input, got ", t.scalar_type());
  TORCH_CHECK(t.device() == x.device(), op, ": ", name, " must be on ", x.device(), " like the input, got ",
              t.device());
}

void check_weight(const char* op, const char* name, const Tensor& weight, const Tensor& x, int64_t size) {
  check_like(op, name, weight, x);
  TORCH_CHECK(weight.dim() == 1 && weight.size(0) == size, op, ": ", name, " must have shape [", size, "], got ",
              weight.sizes());
}

void check_in_place(const char* op, const char* name, const Tensor& t) {
  TORCH_CHECK(!overlaps_itself(t), op, ": ", name,
              " is written in place, but several of its elements share memory; clone it first");
}

// One stride over all leading dimensions of t but the last `inner` ones.
// False where there is none.
bool leading_stride(const Tensor& t, int64_t inner, int64_t& stride) {
  const auto sizes = t.sizes(), strides = t.strides();
  stride = 0;
  int64_t expected = 0;  // of the next dimension outwards; 0 while any will do
  for (int64_t d = t.dim() - inner - 1; d >= 0; --d) {
    if (sizes[d] == 1) continue;
    if (expected == 0) {
      stride = strides[d];
    } else if (strides[d] != expected) {
      return false;
    }
    expected = strides[d] * sizes[d];
    if (expected == 0) return false;
  }
  return true;
}

Walked as_contiguous(const Tensor& t) {
  return t.is_contiguous() ? Walked::borrowed(t) : Walked::owned(t.contiguous());
}

// t, or a copy, as rows of its last dimension. An overlap of rows is fine
// where they are only read.
Walked as_rows(const Tensor& t, int64_t& stride) {
  const int64_t cols = t.size(-1);
  if (C10_LIKELY(t.is_contiguous())) {
    stride = cols;
    return Walked::borrowed(t);
  }
  if ((t.stride(-1) == 1 || cols == 1) && leading_stride(t, 1, stride)) return Walked::borrowed(t);
  stride = cols;
  return Walked::owned(t.contiguous());
}

// --- rms_norm

void check_norm(const char* op, const Tensor& x, const Tensor& weight) {
  TORCH_CHECK(x.dim() >= 1, op, ": x must have at least one dimension, got a scalar");
  check_weight(op, "weight", weight, x, x.size(-1));
}

void run_norm(const char* op, const Tensor& out, const Tensor& x, const Tensor* residual, const Tensor& weight,
              double eps, double weight_offset) {
  const int64_t cols = x.size(-1);
  if (x.numel() == 0) return;
  backend::NormArgs args{};
  const Walked from = as_rows(x, args.x_stride);
  const bool in_place = out.is_same(x);
  const Walked to = in_place ? Walked::borrowed(*from) : as_rows(out, args.out_stride);
  if (in_place) args.out_stride = args.x_stride;
  const Walked sum = residual ? as_rows(*residual, args.residual_stride) : Walked();
  const Walked gain = as_contiguous(weight);
  args.out = mutable_data(*to);
  args.x = const_data(*from);
  args.residual = residual ? mutable_data(*sum) : nullptr;
  args.weight = const_data(*gain);
  args.rows = x.numel() / cols;
  args.cols = cols;
  args.eps = static_cast<float>(eps);
  args.weight_offset = static_cast<float>(weight_offset);
  const backend::DType dtype = dtype_of(op, x);
  on_device(op, x, [&](auto run) { return backend::rms_norm(args, dtype, run); });
  if (!to->is_same(out)) out.copy_(*to);
  if (residual && !sum->is_same(*residual)) residual->copy_(*sum);
}

void check_out(const char* op, const Tensor& out, const Tensor& x, IntArrayRef sizes) {
  check_like(op, "out", out, x);
  TORCH_CHECK(out.sizes() == sizes, op, ": out must have shape ", sizes, ", got ", out.sizes());
  check_in_place(op, "out", out);
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps, double weight_offset) {
  constexpr char op[] = "rms_norm";
  check_no_grad(op, x, weight);
  check_norm(op, x, weight);
  dtype_of(op, x);
  Tensor out = new_empty(x.sizes(), x);
  run_norm(op, out, x, nullptr, weight, eps, weight_offset);
  return out;
}

void rms_norm_out(const Tensor& out, const Tensor& x, const Tensor& weight, double eps, double weight_offset) {
  constexpr char op[] = "rms_norm_out";
  check_no_grad(op, out, x, weight);
  check_norm(op, x, weight);
  check_out(op, out, x, x.sizes());
  if (!out.is_same(x)) assert_no_partial_overlap(out, x);
  assert_no_overlap(out, weight);
  run_norm(op, out, x, nullptr, weight, eps, weight_offset);
  wrote_to(out);
}

void fused_add_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& weight, double eps,
                        double weight_offset) {
  constexpr char op[] = "fused_add_rms_norm";
  check_no_grad(op, x, residual, weight);
  check_norm(op, x, weight);
  check_like(op, "residual", residual, x);
  TORCH_CHECK(residual.sizes() == x.sizes(), op, ": residual must have the shape ", x.sizes(), " of x, got ",
              residual.sizes());
  check_in_place(op, "x", x);
  check_in_place(op, "residual", residual);
  assert_no_overlap(x, residual);
  assert_no_overlap(x, weight);
  assert_no_overlap(residual, weight);
  run_norm(op, x, x, &residual, weight, eps, weight_offset);
  wrote_to(x);
  wrote_to(residual);
}

// --- gated activations

void check_gate(const char* op, const Tensor& x) {
  TORCH_CHECK(x.dim() >= 1, op, ": x must have at least one dimension, got a scalar");
  TORCH_CHECK(x.size(-1) % 2 == 0, op, ": the last dimension of x holds gate and up projection and must be even, got ",
              x.sizes());
}

// The output's sizes.
Sizes gate_sizes(const Tensor& x) {
  Sizes sizes(x.sizes().begin(), x.sizes().end());
  sizes.back() /= 2;
  return sizes;
}

void run_gate(const char* op, const Tensor& out, const Tensor& x, backend::Act act) {
  if (x.numel() == 0) return;
  backend::GateArgs args{};
  const Walked from = as_rows(x, args.x_stride);
  const Walked to = as_rows(out, args.out_stride);
  args.out = mutable_data(*to);
  args.x = const_data(*from);
  args.cols = x.size(-1) / 2;
  args.rows = out.numel() / args.cols;
  const backend::DType dtype = dtype_of(op, x);
  on_device(op, x, [&](auto run) { return backend::act_and_mul(args, act, dtype, run); });
  if (!to->is_same(out)) out.copy_(*to);
}

Tensor gate(const char* op, const Tensor& x, backend::Act act) {
  check_no_grad(op, x);
  check_gate(op, x);
  dtype_of(op, x);
  Tensor out = new_empty(gate_sizes(x), x);
  run_gate(op, out, x, act);
  return out;
}

void gate_out(const char* op, const Tensor& out, const Tensor& x, backend::Act act) {
  check_no_grad(op, out, x);
  check_gate(op, x);
  check_out(op, out, x, gate_sizes(x));
  assert_no_overlap(out, x);
  run_gate(op, out, x, act);
  wrote_to(out);
}

Tensor silu_and_mul(const Tensor& x) { return gate("silu_and_mul", x, backend::kSilu); }
Tensor gelu_tanh_and_mul(const Tensor& x) { return gate("gelu_tanh_and_mul", x, backend::kGeluTanh); }
void silu_and_mul_out(const Tensor& out, const Tensor& x) { gate_out("silu_and_mul_out", out, x, backend::kSilu); }
void gelu_tanh_and_mul_out(const Tensor& out, const Tensor& x) {
  gate_out("gelu_tanh_and_mul_out", out, x, backend::kGeluTanh);
}

// --- rotary embedding

// A tensor of heads and the strides that the backend walks it with: the tensor
// itself, or a copy of one whose strides it cannot walk.
struct Heads {
  Walked walked;
  int64_t token_stride = 0, head_stride = 0;

  explicit Heads(const Tensor& t) : walked(Walked::borrowed(t)) {
    const bool gaps = t.stride(-1) != 1 && t.size(-1) > 1;
    if (gaps || !leading_stride(t, 2, token_stride)) {
      walked = Walked::owned(t.contiguous());
      token_stride = t.size(-1) * t.size(-2);
    }
    head_stride = walked->stride(-2);
  }
};

void check_heads(const char* op, const char* name, const Tensor& t, const Tensor& positions, const Tensor& q) {
  TORCH_CHECK(t.dim() >= 2, op, ": ", name, " must have shape [..., heads, head_dim], got ", t.sizes());
  TORCH_CHECK(t.sizes().slice(0, t.dim() - 2) == positions.sizes(), op, ": the leading dimensions of ", name,
              " must be the shape ", positions.sizes(), " of positions, got ", t.sizes());
  TORCH_CHECK(t.size(-1) == q.size(-1), op, ": k must have the head size ", q.size(-1), " of q, got ", t.sizes());
  TORCH_CHECK(t.size(-2) <= INT32_MAX && t.size(-1) <= INT32_MAX, op, ": ", name, " has too many heads or columns: ",
              t.sizes());
  check_in_place(op, name, t);
}

void check_rotary(const char* op, const Tensor& positions, const Tensor& q, const Tensor& k, const Tensor& cache,
                  int64_t rotary_dim) {
  TORCH_CHECK(positions.scalar_type() == kLong || positions.scalar_type() == kInt, op,
              ": positions must be int64 or int32, got ", positions.scalar_type());
  TORCH_CHECK(positions.device() == q.device(), op, ": positions must be on ", q.device(), " like q, got ",
              positions.device());
  check_heads(op, "q", q, positions, q);
  check_like(op, "k", k, q);
  check_heads(op, "k", k, positions, q);
  assert_no_overlap(q, k);
  TORCH_CHECK(rotary_dim > 0 && rotary_dim % 2 == 0 && rotary_dim <= q.size(-1), op,
              ": rotary_dim must be even, positive and at most the head size ", q.size(-1), ", got ", rotary_dim);
  TORCH_CHECK(cache.scalar_type() == kFloat || cache.scalar_type() == q.scalar_type(), op,
              ": cos_sin_cache must be float32 or the dtype ", q.scalar_type(), " of q, got ", cache.scalar_type());
  TORCH_CHECK(cache.device() == q.device(), op, ": cos_sin_cache must be on ", q.device(), " like q, got ",
              cache.device());
  TORCH_CHECK(cache.dim() == 2 && cache.size(1) == rotary_dim, op, ": cos_sin_cache must have shape [positions, ",
              rotary_dim, "], got ", cache.sizes());
}

// Fills what both operators take, calls run(args), and copies back what had
// to be copied.
template <class Run>
void run_rotary(const Tensor& positions, const Tensor& q, const Tensor& k, const Tensor& cache, int64_t rotary_dim,
                bool interleaved, Run run) {
  if (positions.numel() == 0 || q.numel() + k.numel() == 0) return;
  const Heads q_heads(q), k_heads(k);
  int64_t position_stride;
  const bool one_stride = leading_stride(positions, 0, position_stride);
  const Walked at = one_stride ? Walked::borrowed(positions) : Walked::owned(positions.contiguous());
  if (!one_stride) position_stride = 1;
  const Walked angles = cache.stride(1) == 1 ? Walked::borrowed(cache) : Walked::owned(cache.contiguous());
  backend::RotaryArgs args{};
  args.q = mutable_data(*q_heads.walked);
  args.k = mutable_data(*k_heads.walked);
  args.tokens = positions.numel();
  args.q_heads = static_cast<int>(q.size(-2));
  args.k_heads = static_cast<int>(k.size(-2));
  args.head_dim = static_cast<int>(q.size(-1));
  args.rotary_dim = static_cast<int>(rotary_dim);
  args.q_token_stride = q_heads.token_stride;
  args.q_head_stride = q_heads.head_stride;
  args.k_token_stride = k_heads.token_stride;
  args.k_head_stride = k_heads.head_stride;
  args.positions = const_data(*at);
  args.position_stride = position_stride;
  args.positions_are_int64 = positions.scalar_type() == kLong;
  args.cos_sin_cache = const_data(*angles);
  args.cache_rows = angles->size(0);
  args.cache_stride = angles->stride(0);
  args.cache_is_float32 = cache.scalar_type() == kFloat;
  args.interleaved = interleaved;
  run(args);
  if (!q_heads.walked->is_same(q)) q.copy_(*q_heads.walked);
  if (!k_heads.walked->is_same(k)) k.copy_(*k_heads.walked);
}

void rotary_embedding(const Tensor& positions, const Tensor& q, const Tensor& k, const Tensor& cos_sin_cache,
                      int64_t rotary_dim, bool interleaved) {
  constexpr char op[] = "rotary_embedding";
  check_no_grad(op, q, k, cos_sin_cache);
  check_rotary(op, positions, q, k, cos_sin_cache, rotary_dim);
  const backend::DType dtype = dtype_of(op, q);
  run_rotary(positions, q, k, cos_sin_cache, rotary_dim, interleaved, [&](const backend::RotaryArgs& args) {
    on_device(op, q, [&](auto run) { return backend::rotary_embedding(args, dtype, run); });
  });
  wrote_to(q);
  wrote_to(k);
}

void qk_norm_rope(const Tensor& positions, const Tensor& q, const Tensor& k, const Tensor& q_weight,
                  const Tensor& k_weight, double eps, double weight_offset, const Tensor& cos_sin_cache,
                  int64_t rotary_dim, bool interleaved) {
  constexpr char op[] = "qk_norm_rope";
  check_no_grad(op, q, k, q_weight, k_weight, cos_sin_cache);
  check_rotary(op, positions, q, k, cos_sin_cache, rotary_dim);
  check_weight(op, "q_weight", q_weight, q, q.size(-1));
  check_weight(op, "k_weight", k_weight, q, q.size(-1));
  const backend::DType dtype = dtype_of(op, q);
  const Walked q_gain = as_contiguous(q_weight), k_gain = as_contiguous(k_weight);
  run_rotary(positions, q, k, cos_sin_cache, rotary_dim, interleaved, [&](const backend::RotaryArgs& rotary) {
    backend::PrologueArgs args{};
    args.rotary = rotary;
    args.q_weight = const_data(*q_gain);
    args.k_weight = const_data(*k_gain);
    args.eps = static_cast<float>(eps);
    args.weight_offset = static_cast<float>(weight_offset);
    on_device(op, q, [&](auto run) { return backend::qk_norm_rope(args, dtype, run); });
  });
  wrote_to(q);
  wrote_to(k);
}

// --- which code runs

#if defined(CUDA_KERNEL)
std::string isa() { return "cuda"; }
std::string isa_choices() { return "cuda"; }
#elif defined(METAL_KERNEL)
std::string isa() { return "metal"; }
std::string isa_choices() { return "metal"; }
#else
std::string isa() {
  const char* const no_unit = backend::select_unit();
  TORCH_CHECK(no_unit == nullptr, no_unit);
  return backend::unit_name();
}
std::string isa_choices() { return backend::unit_choices(); }
#endif

constexpr const char* kSchemas[] = {
    "rms_norm(Tensor x, Tensor weight, float eps, float weight_offset) -> Tensor",
    "rms_norm_out(Tensor(a!) out, Tensor x, Tensor weight, float eps, float weight_offset) -> ()",
    "fused_add_rms_norm(Tensor(a!) x, Tensor(b!) residual, Tensor weight, float eps, float weight_offset) -> ()",
    "silu_and_mul(Tensor x) -> Tensor",
    "silu_and_mul_out(Tensor(a!) out, Tensor x) -> ()",
    "gelu_tanh_and_mul(Tensor x) -> Tensor",
    "gelu_tanh_and_mul_out(Tensor(a!) out, Tensor x) -> ()",
    "rotary_embedding(Tensor positions, Tensor(a!) q, Tensor(b!) k, Tensor cos_sin_cache, int rotary_dim, "
    "bool interleaved) -> ()",
    "qk_norm_rope(Tensor positions, Tensor(a!) q, Tensor(b!) k, Tensor q_weight, Tensor k_weight, float eps, "
    "float weight_offset, Tensor cos_sin_cache, int rotary_dim, bool interleaved) -> ()",
};

#define FOR_EACH_OPERATOR(DO)                                                              \
  DO(rms_norm) DO(rms_norm_out) DO(fused_add_rms_norm) DO(silu_and_mul) DO(silu_and_mul_out) \
  DO(gelu_tanh_and_mul) DO(gelu_tanh_and_mul_out) DO(rotary_embedding) DO(qk_norm_rope)

}  // namespace

#if defined(TORCH_TARGET_VERSION)

namespace {
// The torch from which on this library loads: 2011 for 2.11. stable.py knows
// this form by the operator.
int64_t stable_abi() { return (TORCH_TARGET_VERSION >> 56) * 1000 + (TORCH_TARGET_VERSION >> 48 & 0xff); }
}  // namespace

#define BOXED(NAME) ops.impl(#NAME, TORCH_BOX((&api::Call<&NAME>::call)));

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  for (const char* schema : kSchemas) ops.def(schema);
  ops.def("isa() -> str");
  ops.def("isa_choices() -> str");
  ops.def("stable_abi() -> int");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, BACKEND_KEY, ops) { FOR_EACH_OPERATOR(BOXED) }

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CompositeExplicitAutograd, ops) {
  BOXED(isa)
  BOXED(isa_choices)
  BOXED(stable_abi)
}

#else

namespace {
// Gives the Python functions of `module` their short way (eager_entry.h), or
// returns false.
#if defined(__linux__) && (defined(CPU_KERNEL) || defined(CUDA_KERNEL))
bool bind_eager(const std::string& module) {
#define ENTRY(NAME) {#NAME, eager::entry<&NAME>, eager::kFastCall, nullptr},
  static eager::Method methods[] = {FOR_EACH_OPERATOR(ENTRY)};
  return eager::bind_all(module, methods);
}
#else
bool bind_eager(const std::string&) { return false; }
#endif
}  // namespace

#define UNBOXED(NAME) ops.impl(#NAME, &NAME);
#define FALL_THROUGH(NAME) ops.impl(#NAME, torch::CppFunction::makeFallthrough());

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  for (const char* schema : kSchemas) ops.def(schema, {at::Tag::pt2_compliant_tag});
  ops.def("isa() -> str", &isa);
  ops.def("isa_choices() -> str", &isa_choices);
  ops.def("bind_eager(str module) -> bool", &bind_eager);
}

TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, BACKEND_KEY, ops) { FOR_EACH_OPERATOR(UNBOXED) }

// The dispatcher goes straight past autograd, whose own fallback would box
// every call's arguments; check_no_grad has the last word instead.
TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, Autograd, ops) { FOR_EACH_OPERATOR(FALL_THROUGH) }

#endif

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
