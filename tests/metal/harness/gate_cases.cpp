// silu_and_mul and gelu_tanh_and_mul.

#include "suite.h"

#include <cmath>

namespace harness {
namespace {

using namespace thox_edge_ops_metal;

double activation(Act act, double g) {
  if (act == kSilu) return g / (1 + std::exp(-g));
  const double z = std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g);
  return g / (1 + std::exp(-2 * z));
}

std::vector<double> reference(Act act, const Matrix& x) {
  std::vector<double> want;
  const int64_t cols = x.cols() / 2;
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t c = 0; c < cols; ++c) want.push_back(activation(act, x.get(r, c)) * x.get(r, c + cols));
  }
  return want;
}

void gate(Act act, const Matrix& out, const Matrix& x, Order order, uint32_t threads = 0) {
  GateArgs a{};
  a.out = out.buffer(), a.x = x.buffer();
  a.rows = out.rows(), a.cols = out.cols();
  a.out_stride = out.stride(), a.x_stride = x.stride();
  run(plan_gate(a, act, x.dtype()), order, threads);
}

}  // namespace

void gate_cases() {
  int turn = 0;
  for (DType dtype : kDTypes) {
    for (Act act : {kSilu, kGeluTanh}) {
      const char* const op = act == kSilu ? "silu_and_mul" : "gelu_tanh_and_mul";
      const auto one = [&](int64_t rows, int64_t cols, Layout layout, double scale) {
        check_case(text("%s %s %lldx%lld layout %d scale %g", op, name_of(dtype), (long long)rows, (long long)cols,
                        int(layout), scale),
                   [&] {
                     Matrix x(dtype, rows, 2 * cols, layout), out(dtype, rows, cols, layout);
                     fill(x, scale);
                     gate(act, out, x, Order(turn++ % 3));
                     expect_close(out, reference(act, x), "out");
                     expect_intact(out, "out"), expect_intact(x, "x");
                   });
      };
      for (int64_t cols : {1, 3, 7, 37, 63, 64, 96, 513, 1000, 2560}) {
        for (int64_t rows : {1, 7}) one(rows, cols, Layout::kContiguous, 1);
      }
      for (Layout layout : {Layout::kWide, Layout::kOdd, Layout::kUnaligned}) {
        for (int64_t cols : {37, 128}) one(5, cols, layout, 3);
      }
      for (uint32_t threads : kSizes) {
        check_case(text("%s %s 2x1000 with %u threads", op, name_of(dtype), threads), [&] {
          Matrix x(dtype, 2, 2000), out(dtype, 2, 1000);
          fill(x);
          gate(act, out, x, Order(turn++ % 3), threads);
          expect_close(out, reference(act, x), "out");
          expect_intact(out, "out"), expect_intact(x, "x");
        });
      }
      // Gates where e^-y, its square or tanh's e^2y leave the range of fp32.
      check_case(text("%s %s extreme gates", op, name_of(dtype)), [&] {
        const double most = dtype == kFloat16 ? 65504 : 3e38;
        const std::vector<double> gates = {0.0, -0.0, 10, -10, 11, -11, 40, -40, 88, -88, 89, -89, 100, -100, 1000, -1000,
                                           most, -most, INFINITY, NAN};
        const int64_t n = int64_t(gates.size());
        Matrix x(dtype, 1, 2 * n), out(dtype, 1, n);
        for (int64_t c = 0; c < n; ++c) x.set(0, c, gates[size_t(c)]), x.set(0, n + c, 1);
        gate(act, out, x, Order::kForward);
        for (int64_t c = 0; c < n; ++c) {
          const double g = x.get(0, c), got = out.get(0, c);
          const double want = g <= -1000 ? 0 : g >= 1000 ? g : activation(act, g);
          const bool ok = std::isnan(g) ? std::isnan(got)
                                        : got == want || std::fabs(got - want) <= tolerance(dtype) * std::fmax(1, std::fabs(want));
          expect(ok, "gate %g: got %g, expected %g", g, got, want);
        }
      });
      check_case(text("%s %s rows of nothing", op, name_of(dtype)), [&] {
        Matrix x(dtype, 0, 64), out(dtype, 0, 32);
        gate(act, out, x, Order::kForward);
        expect_intact(out, "out");
      });
    }
  }
}

}  // namespace harness
