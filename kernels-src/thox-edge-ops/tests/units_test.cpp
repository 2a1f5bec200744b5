// Tests the selected unit without torch: every primitive against scalar code
// in double precision, over lengths with every kind of tail, with margins that
// nobody may write to. Links the CPU backend only, so it also runs where no
// torch does, for example under an emulator of another architecture.
//
// Prints one line per operator and type with the largest error, and exits with
// 1 if one is too large. THOX_EDGE_OPS_CPU_ISA forces a unit as usual.

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <random>
#include <vector>

#include "../cpu/edge_ops_cpu.h"

using namespace thox_edge_ops_cpu;

namespace {

constexpr double kTolerance[] = {1e-5, 2e-3, 1.6e-2};
constexpr const char* kNames[] = {"float32", "float16", "bfloat16"};
int failures = 0;

// Scalar conversions, written for clarity: the value of any number of the
// type, and the nearest number to a value, ties to even.

double half_to_double(uint16_t h) {
  const int exponent = h >> 10 & 31, fraction = h & 1023;
  const double sign = h & 0x8000 ? -1 : 1;
  if (exponent == 31) return fraction ? NAN : sign * INFINITY;
  return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

double bfloat16_to_double(uint16_t b) {
  const uint32_t bits = uint32_t(b) << 16;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

// Rounds |v| to `digits` significant bits, but no finer than 2^lowest.
double round_to(double v, int digits, int lowest) {
  if (v == 0 || !isfinite(v)) return v;
  int exponent;
  frexp(v, &exponent);
  const int last = exponent - digits > lowest ? exponent - digits : lowest;
  return ldexp(nearbyint(ldexp(v, -last)), last);
}

uint16_t half_from(double v) {
  if (isnan(v)) return 0x7e00;
  const uint16_t sign = signbit(v) ? 0x8000 : 0;
  const double r = round_to(fabs(v), 11, -24);
  if (r >= 65536) return sign | 0x7c00;
  if (r < ldexp(1, -14)) return sign | uint16_t(ldexp(r, 24));
  int exponent;
  const double m = frexp(r, &exponent);  // r = m 2^exponent, m in [1/2, 1)
  return sign | uint16_t((exponent + 14) << 10) | (uint16_t(ldexp(m, 11)) & 1023);
}

uint16_t bfloat16_from(double v) {
  if (isnan(v)) return 0x7fc0;
  const float f = float(round_to(v, 8, -133));
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return uint16_t(bits >> 16);
}

struct Buffer {
  static constexpr int kMargin = 37;
  DType dtype;
  size_t size;
  std::vector<uint8_t> bytes;

  Buffer(DType dtype, size_t size) : dtype(dtype), size(size), bytes((size + 2 * kMargin) * item(), 0xa5) {}
  size_t item() const { return dtype == kFloat32 ? 4 : 2; }
  void* data() { return bytes.data() + kMargin * item(); }
  double get(size_t i) const {
    const uint8_t* p = bytes.data() + (kMargin + i) * item();
    if (dtype == kFloat32) {
      float f;
      memcpy(&f, p, 4);
      return f;
    }
    uint16_t b;
    memcpy(&b, p, 2);
    return dtype == kFloat16 ? half_to_double(b) : bfloat16_to_double(b);
  }
  void set(size_t i, double v) {
    uint8_t* p = bytes.data() + (kMargin + i) * item();
    if (dtype == kFloat32) {
      const float f = float(v);
      memcpy(p, &f, 4);
    } else {
      const uint16_t b = dtype == kFloat16 ? half_from(v) : bfloat16_from(v);
      memcpy(p, &b, 2);
    }
  }
  bool margins_untouched() const {
    for (size_t i = 0; i < kMargin * item(); ++i) {
      if (bytes[i] != 0xa5 || bytes[bytes.size() - 1 - i] != 0xa5) return false;
    }
    return true;
  }
};

std::mt19937 rng(1);

Buffer random(DType dtype, size_t size, double scale = 1) {
  std::normal_distribution<double> normal;
  Buffer b(dtype, size);
  for (size_t i = 0; i < size; ++i) b.set(i, scale * normal(rng));
  return b;
}

double rounded(DType dtype, double v) {
  Buffer one(dtype, 1);
  one.set(0, v);
  return one.get(0);
}

struct Result {
  const char* op;
  DType dtype;
  double error = 0;  // relative to max(1, |want|)

  void compare(double got, double want) {
    if (isnan(got) && isnan(want)) return;
    const double e = fabs(got - want) / fmax(1, fabs(want));
    if (!(e <= error)) error = e;
  }
  void margins(const Buffer& b) {
    if (!b.margins_untouched()) {
      printf("%s %s: wrote outside of a tensor\n", op, kNames[dtype]);
      ++failures;
    }
  }
  ~Result() {
    const bool ok = error <= kTolerance[dtype];
    printf("%-20s %-8s largest error %.1e %s\n", op, kNames[dtype], error, ok ? "ok" : "TOO LARGE");
    failures += !ok;
  }
};

// In two parts, to see that a division changes nothing.
void in_two_parts(int64_t units, int64_t, Body body, const void* ctx) {
  body(ctx, units / 2, units);
  body(ctx, 0, units / 2);
}

std::vector<double> norm_of(const std::vector<double>& x, const Buffer& w, double eps, double offset) {
  double sum = 0;
  for (double v : x) sum += v * v;
  const double scale = 1 / sqrt(sum / double(x.size()) + eps);
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * (w.get(i) + offset);
  return y;
}

void test_norms(DType dtype) {
  Result plain{"rms_norm", dtype}, added{"fused_add_rms_norm", dtype};
  for (int cols = 1; cols <= 200; cols += cols < 140 ? 1 : 13) {
    const int rows = 3;
    Buffer x = random(dtype, rows * cols), r = random(dtype, rows * cols), w = random(dtype, cols), out(dtype, rows * cols);
    const Buffer r0 = r, x0 = x;
    NormArgs args{};
    args.out = out.data(), args.x = x.data(), args.weight = w.data();
    args.rows = rows, args.cols = cols, args.out_stride = args.x_stride = args.residual_stride = cols;
    args.eps = 1e-6f, args.weight_offset = 1;
    rms_norm(args, dtype, in_two_parts);
    args.out = x.data(), args.residual = r.data();
    rms_norm(args, dtype, in_two_parts);
    for (int row = 0; row < rows; ++row) {
      std::vector<double> a(cols), sum(cols);
      for (int i = 0; i < cols; ++i) {
        a[i] = x0.get(row * cols + i);
        sum[i] = rounded(dtype, double(float(a[i] + r0.get(row * cols + i))));
        if (r.get(row * cols + i) != sum[i]) {
          printf("fused_add_rms_norm %s: the residual is not the rounded sum\n", kNames[dtype]);
          ++failures;
        }
      }
      const auto y = norm_of(a, w, 1e-6, 1), z = norm_of(sum, w, 1e-6, 1);
      for (int i = 0; i < cols; ++i) plain.compare(out.get(row * cols + i), y[i]);
      for (int i = 0; i < cols; ++i) added.compare(x.get(row * cols + i), z[i]);
    }
    plain.margins(out), added.margins(x), added.margins(r);
  }
}

void test_gate(DType dtype, Act act) {
  Result result{act == kSilu ? "silu_and_mul" : "gelu_tanh_and_mul", dtype};
  for (int cols = 1; cols <= 2100; cols += cols < 70 ? 1 : 677) {
    const int rows = 2;
    Buffer x = random(dtype, rows * 2 * cols, 3), out(dtype, rows * cols);
    GateArgs args{out.data(), x.data(), rows, cols, cols, 2 * cols};
    act_and_mul(args, act, dtype, in_two_parts);
    for (int row = 0; row < rows; ++row) {
      for (int i = 0; i < cols; ++i) {
        const double g = x.get(row * 2 * cols + i), u = x.get(row * 2 * cols + cols + i);
        const double t = act == kSilu ? g : 2 * sqrt(2 / M_PI) * (g + 0.044715 * g * g * g);
        result.compare(out.get(row * cols + i), g / (1 + exp(-t)) * u);
      }
    }
    result.margins(out);
  }
}

// Every 16-bit number through load and store: a sum with 0 gives it back, and
// a sum of two is rounded as in double precision.
void test_conversions(DType dtype) {
  const int cols = 256, rows = 256;
  Buffer x(dtype, rows * cols), r(dtype, rows * cols), w(dtype, cols);
  for (int i = 0; i < cols; ++i) w.set(i, 1);
  for (int pass = 0; pass < 3; ++pass) {
    uint16_t* const a = static_cast<uint16_t*>(x.data());
    uint16_t* const b = static_cast<uint16_t*>(r.data());
    for (int i = 0; i < rows * cols; ++i) {
      a[i] = uint16_t(i);
      b[i] = pass == 0 ? 0 : pass == 1 ? uint16_t(i * 40503u + 12345) : uint16_t(i + i % 37 - 18);
    }
    const Buffer x0 = x, r0 = r;
    NormArgs args{x.data(), x.data(), r.data(), w.data(), rows, cols, cols, cols, cols, 1e-6f, 0};
    rms_norm(args, dtype, in_two_parts);
    int wrong = 0;
    for (int i = 0; i < rows * cols; ++i) {
      const double got = r.get(i), want = rounded(dtype, double(float(x0.get(i) + r0.get(i))));
      wrong += !(got == want || (isnan(got) && isnan(want)));
    }
    if (wrong) printf("%s: %d of %d sums are rounded wrongly (pass %d)\n", kNames[dtype], wrong, rows * cols, pass);
    failures += wrong != 0;
  }
  printf("%-20s %-8s every number\n", "loads and stores", kNames[dtype]);
}

void test_rotary(DType dtype, bool prologue, bool cache_is_float32) {
  Result result{prologue ? "qk_norm_rope" : "rotary_embedding", dtype};
  const int shapes[][2] = {{64, 64}, {128, 128}, {80, 20}, {96, 72}, {10, 6}, {2, 2}, {37, 34}, {256, 64}};
  for (const auto& shape : shapes) {
    for (const bool interleaved : {false, true}) {
      const int dim = shape[0], rotary = shape[1], half = rotary / 2, q_heads = 3, k_heads = 2, tokens = 4;
      Buffer q = random(dtype, tokens * q_heads * dim), k = random(dtype, tokens * k_heads * dim);
      Buffer qw = random(dtype, dim), kw = random(dtype, dim);
      Buffer cache = random(cache_is_float32 ? kFloat32 : dtype, 8 * rotary);
      const int64_t positions[] = {5, -1, 8, 0};
      RotaryArgs r{};
      r.q = q.data(), r.k = k.data(), r.tokens = tokens, r.q_heads = q_heads, r.k_heads = k_heads;
      r.head_dim = dim, r.rotary_dim = rotary;
      r.q_token_stride = q_heads * dim, r.k_token_stride = k_heads * dim;
      r.q_head_stride = r.k_head_stride = dim;
      r.positions = positions, r.position_stride = 1, r.positions_are_int64 = true;
      r.cos_sin_cache = cache.data(), r.cache_rows = 8, r.cache_stride = rotary;
      r.cache_is_float32 = cache_is_float32, r.interleaved = interleaved;
      const Buffer q0 = q, k0 = k;
      if (prologue) {
        qk_norm_rope(PrologueArgs{r, qw.data(), kw.data(), 1e-6f, 0}, dtype, in_two_parts);
      } else {
        rotary_embedding(r, dtype, in_two_parts);
      }
      for (int t = 0; t < tokens; ++t) {
        for (int h = 0; h < q_heads + k_heads; ++h) {
          const bool is_k = h >= q_heads;
          const size_t at = is_k ? (t * k_heads + h - q_heads) * dim : (t * q_heads + h) * dim;
          std::vector<double> v(dim);
          for (int i = 0; i < dim; ++i) v[i] = (is_k ? k0 : q0).get(at + i);
          if (prologue) {
            v = norm_of(v, is_k ? kw : qw, 1e-6, 0);
            for (double& e : v) e = rounded(dtype, e);
          }
          if (positions[t] >= 0 && positions[t] < 8) {
            for (int i = 0; i < half; ++i) {
              const int a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + half;
              const double c = cache.get(positions[t] * rotary + i), s = cache.get(positions[t] * rotary + half + i);
              const double x = v[a] * c - v[b] * s;
              v[b] = v[b] * c + v[a] * s;
              v[a] = x;
            }
          }
          for (int i = 0; i < dim; ++i) result.compare((is_k ? k : q).get(at + i), v[i]);
        }
      }
      result.margins(q), result.margins(k);
    }
  }
}

}  // namespace

int main() {
  if (const char* why = select_unit()) {
    fprintf(stderr, "units_test: %s\n", why);
    return 2;
  }
  printf("unit %s, of: %s\n", unit_name(), unit_choices());
  for (const DType dtype : {kFloat32, kFloat16, kBFloat16}) {
    if (dtype != kFloat32) test_conversions(dtype);
    test_norms(dtype);
    test_gate(dtype, kSilu);
    test_gate(dtype, kGeluTanh);
    for (const bool prologue : {false, true}) {
      test_rotary(dtype, prologue, true);
      test_rotary(dtype, prologue, false);
    }
  }
  if (failures) printf("%d failures\n", failures);
  return failures != 0;
}
