// Two yardsticks for the CPU benchmark, both registered as torch operators:
// operators that do nothing, and the norms and gates written with ATen's own
// vectors the way SGLang's CPU kernels are. Not part of any product.
#include <ATen/Parallel.h>
#include <ATen/cpu/vec/functional.h>
#include <ATen/cpu/vec/vec.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

namespace {

using at::BFloat16;
using at::Tensor;
using F = at::vec::Vectorized<float>;
constexpr int64_t kF = F::size();

template <class T>
struct Two {
  static std::pair<F, F> load(const T* p) {
    if constexpr (std::is_same_v<T, float>) {
      return {F::loadu(p), F::loadu(p + kF)};
    } else {
      auto [a, b] = at::vec::convert_to_float(at::vec::Vectorized<T>::loadu(p));
      return {a, b};
    }
  }
  static void store(T* p, F a, F b) {
    if constexpr (std::is_same_v<T, float>) {
      a.store(p), b.store(p + kF);
    } else {
      at::vec::convert_from_float<T>(a, b).store(p);
    }
  }
};

float sum(F v) {
  return at::vec::vec_reduce_all<float>([](F& a, F& b) { return a + b; }, v, kF);
}

template <class T>
void norm_row(T* out, const T* x, T* residual, const T* w, int64_t n, float eps) {
  F s0(0.f), s1(0.f);
  for (int64_t i = 0; i < n; i += 2 * kF) {
    auto [a, b] = Two<T>::load(x + i);
    if (residual) {
      auto [c, d] = Two<T>::load(residual + i);
      a = a + c, b = b + d;
      Two<T>::store(residual + i, a, b);
    }
    s0 = at::vec::fmadd(a, a, s0), s1 = at::vec::fmadd(b, b, s1);
  }
  const F scale(1.f / std::sqrt(sum(s0 + s1) / n + eps));
  const T* from = residual ? residual : x;
  for (int64_t i = 0; i < n; i += 2 * kF) {
    auto [a, b] = Two<T>::load(from + i);
    auto [g, h] = Two<T>::load(w + i);
    Two<T>::store(out + i, a * scale * g, b * scale * h);
  }
}

template <class T>
void norm(T* out, const T* x, T* residual, const T* w, int64_t rows, int64_t n, float eps) {
  at::parallel_for(0, rows, std::max<int64_t>(1, 32768 / n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      norm_row(out + r * n, x + r * n, residual ? residual + r * n : nullptr, w, n, eps);
    }
  });
}

template <bool kGelu>
F act(F g) {
  if constexpr (kGelu) {
    const F z = F(0.7978845608f) * (g + F(0.044715f) * g * g * g);
    return F(0.5f) * g * (F(1.f) + z.tanh());
  } else {
    return g / (F(1.f) + g.neg().exp_u20());
  }
}

template <bool kGelu, class T>
void gate(T* out, const T* x, int64_t rows, int64_t n) {
  at::parallel_for(0, rows, std::max<int64_t>(1, 16384 / n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* g = x + r * 2 * n;
      for (int64_t i = 0; i < n; i += 2 * kF) {
        auto [a, b] = Two<T>::load(g + i);
        auto [u, v] = Two<T>::load(g + n + i);
        Two<T>::store(out + r * n + i, act<kGelu>(a) * u, act<kGelu>(b) * v);
      }
    }
  });
}

#define BY_TYPE(x, ...)                                         \
  if (x.scalar_type() == at::kFloat) {                          \
    using T = float;                                            \
    __VA_ARGS__;                                                \
  } else {                                                      \
    using T = BFloat16;                                         \
    __VA_ARGS__;                                                \
  }

Tensor rms_norm(const Tensor& x, const Tensor& w, double eps) {
  Tensor out = at::empty(x.sizes(), x.options());
  BY_TYPE(x, norm<T>(out.data_ptr<T>(), x.data_ptr<T>(), nullptr, w.data_ptr<T>(), x.size(0), x.size(1), float(eps)));
  return out;
}

void add_norm(Tensor& x, Tensor& residual, const Tensor& w, double eps) {
  BY_TYPE(x, norm<T>(x.data_ptr<T>(), x.data_ptr<T>(), residual.data_ptr<T>(), w.data_ptr<T>(), x.size(0), x.size(1),
                     float(eps)));
}

template <bool kGelu>
Tensor gated(const Tensor& x) {
  Tensor out = at::empty({x.size(0), x.size(1) / 2}, x.options());
  BY_TYPE(x, gate<kGelu, T>(out.data_ptr<T>(), x.data_ptr<T>(), x.size(0), x.size(1) / 2));
  return out;
}

}  // namespace

TORCH_LIBRARY(thox_bench_probe, m) {
  m.def("rms_norm(Tensor x, Tensor w, float eps) -> Tensor");
  m.def("fused_add_rms_norm(Tensor(a!) x, Tensor(b!) residual, Tensor w, float eps) -> ()");
  m.def("silu_and_mul(Tensor x) -> Tensor");
  m.def("gelu_tanh_and_mul(Tensor x) -> Tensor");
  m.def("nothing2(Tensor(a!) out, Tensor x) -> ()");
  m.def("nothing5(Tensor(a!) out, Tensor(b!) r, Tensor w, float eps, float offset) -> ()");
  m.def("nothing6(Tensor p, Tensor(a!) q, Tensor(b!) k, Tensor cache, int dim, bool interleaved) -> ()");
}

TORCH_LIBRARY_IMPL(thox_bench_probe, CPU, m) {
  m.impl("rms_norm", &rms_norm);
  m.impl("fused_add_rms_norm", &add_norm);
  m.impl("silu_and_mul", &gated<false>);
  m.impl("gelu_tanh_and_mul", &gated<true>);
  m.impl("nothing2", +[](Tensor&, const Tensor&) {});
  m.impl("nothing5", +[](Tensor&, Tensor&, const Tensor&, double, double) {});
  m.impl("nothing6", +[](const Tensor&, Tensor&, Tensor&, const Tensor&, int64_t, bool) {});
}
