// rms_norm and fused_add_rms_norm.

#include "suite.h"

#include <cmath>

namespace harness {
namespace {

using namespace thox_edge_ops_metal;

const char* name_of(Layout layout) {
  static const char* const names[] = {"contiguous", "wide", "odd", "unaligned"};
  return names[int(layout)];
}

void weights(Matrix& w, double offset) { fill(w, 0.3, 1 - offset); }

void rms_norm_case(DType dtype, int64_t rows, int64_t cols, double offset, Layout layout, Order order) {
  check_case(text("rms_norm %s %lldx%lld offset %g %s", harness::name_of(dtype), (long long)rows, (long long)cols,
                  offset, name_of(layout)),
             [&] {
               Matrix x(dtype, rows, cols, layout), out(dtype, rows, cols, layout);
               Matrix w(dtype, 1, cols, layout == Layout::kUnaligned ? layout : Layout::kContiguous);
               fill(x), weights(w, offset);
               norm(out, x, nullptr, w, offset, order);
               expect_close(out, norm_reference(x, w, kEps, offset), "out");
               expect_intact(out, "out"), expect_intact(x, "x"), expect_intact(w, "weight");
             });
}

void fused_case(DType dtype, int64_t rows, int64_t cols, double offset, Layout layout, Order order) {
  check_case(text("fused_add_rms_norm %s %lldx%lld offset %g %s", harness::name_of(dtype), (long long)rows,
                  (long long)cols, offset, name_of(layout)),
             [&] {
               Matrix x(dtype, rows, cols, layout), residual(dtype, rows, cols, layout), w(dtype, 1, cols);
               Matrix sum(dtype, rows, cols);
               fill(x), fill(residual), weights(w, offset);
               for (int64_t r = 0; r < rows; ++r) {
                 for (int64_t c = 0; c < cols; ++c) sum.set(r, c, float(float(x.get(r, c)) + float(residual.get(r, c))));
               }
               norm(x, x, &residual, w, offset, order);
               expect_same_bits(residual, sum, "residual");
               expect_close(x, norm_reference(sum, w, kEps, offset), "x");
               expect_intact(x, "x"), expect_intact(residual, "residual");
             });
}

// One row's bits, whatever the number of threads, the order in which they
// run, the batch, the strides or the alignment.
void same_bits_case(DType dtype, int64_t cols) {
  for (uint32_t threads = 32; threads <= 1024; threads += threads < 128 ? 32 : 128) {
    check_case(text("rms_norm %s 2x%lld with %u threads", harness::name_of(dtype), (long long)cols, threads), [&] {
      Matrix x(dtype, 1, cols), w(dtype, 1, cols), want(dtype, 1, cols), got(dtype, 1, cols), odd(dtype, 1, cols, Layout::kUnaligned);
      fill(x), weights(w, 0);
      norm(want, x, nullptr, w, 0);
      norm(got, x, nullptr, w, 0, Order::kShuffled, threads);
      expect_same_bits(got, want, "another number of threads");
      norm(odd, x, nullptr, w, 0, Order::kBackward, threads);
      expect_same_bits(odd, want, "another alignment");
      Matrix many(dtype, 5, cols), out(dtype, 5, cols);
      fill(many);
      for (int64_t c = 0; c < cols; ++c) many.set(4, c, x.get(0, c));
      norm(out, many, nullptr, w, 0);
      bool same = true;
      for (int64_t c = 0; c < cols; ++c) same &= out.get(4, c) == want.get(0, c);
      expect(same, "the row's bits depend on the batch");
      norm(x, x, nullptr, w, 0, Order::kShuffled, threads);
      expect_same_bits(x, want, "in place");
    });
  }
}

}  // namespace

void norm_cases() {
  int turn = 0;
  const auto next = [&turn] { return Order(turn++ % 3); };
  for (DType dtype : kDTypes) {
    for (int64_t cols : {37, 64, 100, 1024, 1152, 2560}) {
      for (int64_t rows : {1, 2, 7, 64}) {
        if (rows == 64 && cols > 1024) rows = 16;  // the fibres take their time
        for (double offset : {0.0, 1.0}) rms_norm_case(dtype, rows, cols, offset, Layout::kContiguous, next());
        if (rows != 2) fused_case(dtype, rows, cols, rows == 7, Layout::kContiguous, next());
      }
    }
    for (int64_t cols : {1, 2, 3, 15, 16, 17, 31, 33, 47, 48, 63, 65, 80, 127, 128, 129, 257, 511, 769, 4096, 4100, 9001}) {
      rms_norm_case(dtype, 3, cols, 0, Layout::kUnaligned, next());
      fused_case(dtype, 3, cols, 1, Layout::kOdd, next());
    }
    for (Layout layout : {Layout::kWide, Layout::kOdd, Layout::kUnaligned}) {
      for (int64_t cols : {37, 256, 1024}) {
        rms_norm_case(dtype, 6, cols, 1, layout, next());
        fused_case(dtype, 6, cols, 0, layout, next());
      }
    }
    for (int64_t cols : {100, 2560}) same_bits_case(dtype, cols);
    check_case(text("rms_norm %s of zeros", name_of(dtype)), [&] {
      Matrix x(dtype, 2, 64), w(dtype, 1, 64), out(dtype, 2, 64);
      weights(w, 0);
      for (int r = 0; r < 2; ++r)
        for (int c = 0; c < 64; ++c) x.set(r, c, 0);
      norm(out, x, nullptr, w, 0);
      expect_close(out, std::vector<double>(128, 0.0), "out");
    });
    check_case(text("rms_norm %s eps counts", name_of(dtype)), [&] {
      Matrix x(dtype, 2, 64), w(dtype, 1, 64), out(dtype, 2, 64);
      fill(x, 1e-3), weights(w, 0);
      norm(out, x, nullptr, w, 0);
      expect_close(out, norm_reference(x, w, kEps, 0), "out");
    });
    // 1 + w in fp32: in bfloat16 the sum 1 + 2^-8 would be lost.
    check_case(text("rms_norm %s adds the offset in float32", name_of(dtype)), [&] {
      Matrix x(dtype, 1, 64), w(dtype, 1, 64), out(dtype, 1, 64);
      for (int c = 0; c < 64; ++c) x.set(0, c, 1), w.set(0, c, c % 2 ? 0.01171875 : 16.0625);
      norm(out, x, nullptr, w, 1);
      for (int c = 0; c < 64; ++c) {
        const double want = (c % 2 ? 0.01171875 : 16.0625) + 1;
        expect(out.get(0, c) == rounded(dtype, float(want / std::sqrt(1 + 1e-6))), "rounded twice at %d", c);
      }
    });
    check_case(text("rms_norm %s of nothing", name_of(dtype)), [&] {
      Matrix x(dtype, 0, 64), w(dtype, 1, 64);
      norm(x, x, nullptr, w, 0);
      Matrix none(dtype, 3, 0);
      norm(none, none, nullptr, none, 0);
      expect_intact(x, "x");
    });
  }
}

}  // namespace harness
