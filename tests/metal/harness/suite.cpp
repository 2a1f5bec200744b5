#include "suite.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace harness {

using namespace thox_edge_ops_metal;

namespace {

int cases = 0, failed = 0;
bool case_ok = true, first_only = false;
uint64_t state = 88172645463325252ull;

double uniform() {  // in (0, 1)
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (double(state >> 11) + 0.5) / 9007199254740992.0;
}

}  // namespace

const char* name_of(DType dtype) {
  static const char* const names[] = {"float32", "float16", "bfloat16"};
  return names[dtype];
}

double tolerance(DType dtype) {
  static const double t[] = {1e-5, 2e-3, 1.6e-2};
  return t[dtype];
}

std::string text(const char* format, ...) {
  char buffer[256];
  va_list args;
  va_start(args, format);
  std::vsnprintf(buffer, sizeof buffer, format, args);
  va_end(args);
  return buffer;
}

void check_case(const std::string& name, const std::function<void()>& body) {
  ++cases;
  case_ok = true;
  set_context(name.c_str());
  // Kept in the file name of a crash: whoever traps finds the case above it.
  std::printf("%s\n", name.c_str());
  std::fflush(stdout);
  body();
  failed += !case_ok;
  if (failed != 0 && first_only) std::exit(report());
}

void stop_at_first(bool yes) { first_only = yes; }

int report() {
  print_sizes();
  std::printf("%d cases, %d failed\n", cases, failed);
  return failed == 0 && cases > 0 ? 0 : 1;
}

void expect(bool ok, const char* format, ...) {
  if (ok) return;
  if (case_ok) {  // the first of a case is enough
    std::printf("  FAIL ");
    va_list args;
    va_start(args, format);
    std::vprintf(format, args);
    va_end(args);
    std::printf("\n");
  }
  case_ok = false;
}

void expect_close(const Matrix& got, const std::vector<double>& want, const char* what) {
  const double t = tolerance(got.dtype());
  size_t i = 0;
  for (int64_t r = 0; r < got.rows(); ++r) {
    for (int64_t c = 0; c < got.cols(); ++c, ++i) {
      const double g = got.get(r, c), w = want[i];
      const bool same = std::isnan(w) ? std::isnan(g) : g == w || std::fabs(g - w) <= t + t * std::fabs(w);
      if (!same) {
        expect(false, "%s[%lld, %lld]: got %.9g, expected %.9g", what, (long long)r, (long long)c, g, w);
        return;
      }
    }
  }
}

void expect_same_bits(const Matrix& a, const Matrix& b, const char* what) {
  expect(a.bits() == b.bits(), "%s: the bits differ", what);
}

void expect_intact(const Matrix& m, const char* what) { expect(m.intact(), "%s: written outside of the tensor", what); }

void fill(Matrix& m, double scale, double mean) {
  for (int64_t r = 0; r < m.rows(); ++r) {
    for (int64_t c = 0; c < m.cols(); ++c) {
      const double normal = std::sqrt(-2 * std::log(uniform())) * std::cos(2 * M_PI * uniform());
      m.set(r, c, mean + scale * normal);
    }
  }
}

std::vector<double> norm_reference(const Matrix& x, const Matrix& weight, double eps, double offset) {
  std::vector<double> want;
  for (int64_t r = 0; r < x.rows(); ++r) {
    double sum = 0;
    for (int64_t c = 0; c < x.cols(); ++c) sum += x.get(r, c) * x.get(r, c);
    const double rstd = 1 / std::sqrt(sum / double(x.cols()) + eps);
    // weight may have one row, or one for each row of x.
    for (int64_t c = 0; c < x.cols(); ++c) want.push_back(x.get(r, c) * rstd * (weight.get(0, c) + offset));
  }
  return want;
}

void rotate_reference(std::vector<double>& heads, int64_t head_count, int64_t head_dim,
                      const std::vector<int64_t>& positions, const Matrix& cache, const Rotation& how) {
  const int half = how.rotary_dim / 2;
  for (size_t token = 0; token < positions.size(); ++token) {
    const int64_t position = positions[token];
    if (position < 0 || position >= cache.rows()) continue;
    for (int64_t h = 0; h < head_count; ++h) {
      double* row = heads.data() + (int64_t(token) * head_count + h) * head_dim;
      for (int i = 0; i < half; ++i) {
        double& a = row[how.interleaved ? 2 * i : i];
        double& b = row[how.interleaved ? 2 * i + 1 : i + half];
        const double c = cache.get(position, i), s = cache.get(position, half + i), x = a, y = b;
        a = x * c - y * s;
        b = y * c + x * s;
      }
    }
  }
}

void fill_angles(Matrix& cache, int rotary_dim) {
  const int half = rotary_dim / 2;
  for (int64_t p = 0; p < cache.rows(); ++p) {
    for (int i = 0; i < half; ++i) {
      const double angle = double(p) * std::pow(10000.0, -2.0 * i / rotary_dim);
      cache.set(p, i, std::cos(angle));
      cache.set(p, half + i, std::sin(angle));
    }
  }
}

void norm(const Matrix& out, const Matrix& x, const Matrix* residual, const Matrix& weight, double offset, Order order,
          uint32_t threads) {
  NormArgs a{};
  a.out = out.buffer(), a.x = x.buffer(), a.weight = weight.buffer();
  if (residual) a.residual = residual->buffer(), a.residual_stride = residual->stride();
  a.rows = x.rows(), a.cols = x.cols();
  a.out_stride = out.stride(), a.x_stride = x.stride();
  a.eps = float(kEps), a.weight_offset = float(offset);
  run(plan_norm(a, x.dtype()), order, threads);
}

RotaryArgs rotary_args(const Heads& q, const Heads& k, const Matrix& positions, bool int64, int64_t tokens,
                       const Matrix& cache, const Rotation& how) {
  RotaryArgs a{};
  a.q = q.rows->buffer(), a.k = k.rows->buffer();
  a.tokens = tokens;
  a.q_heads = q.count, a.k_heads = k.count;
  a.head_dim = int(q.rows->cols()), a.rotary_dim = how.rotary_dim;
  a.q_head_stride = q.rows->stride(), a.q_token_stride = q.rows->stride() * q.count;
  a.k_head_stride = k.rows->stride(), a.k_token_stride = k.rows->stride() * k.count;
  a.positions = positions.buffer(), a.position_stride = positions.stride(), a.positions_are_int64 = int64;
  a.cos_sin_cache = cache.buffer(), a.cache_rows = cache.rows(), a.cache_stride = cache.stride();
  a.cache_is_float32 = cache.dtype() == kFloat32;
  a.interleaved = how.interleaved;
  return a;
}

}  // namespace harness

// With --first the run ends with the first case that fails.
int main(int argc, char** argv) {
  harness::stop_at_first(argc == 2 && std::string(argv[1]) == "--first");
  harness::norm_cases();
  harness::gate_cases();
  harness::rotary_cases();
  harness::prologue_cases();
  return harness::report();
}
