// rotary_embedding and qk_norm_rope.

#include "suite.h"

#include <cmath>

namespace harness {
namespace {

using namespace thox_edge_ops_metal;

struct Shape {
  int head_dim, rotary_dim;
};

// How a case differs from the plain one.
struct Variation {
  bool interleaved = false;
  bool cache_is_float32 = true;
  bool int64 = true;
  int64_t position_stride = 1;
  Layout layout = Layout::kContiguous;
  Order order = Order::kForward;
  uint32_t threads = 0;  // as planned
};

constexpr int64_t kCacheRows = 32;

// Inside, at both ends, and outside on both sides; cut to 32 bits, the large
// ones would be inside, and not at position 0, where the rotation does nothing.
std::vector<int64_t> positions_of(int64_t tokens, bool int64) {
  const std::vector<int64_t> all = {3, 0, kCacheRows - 1, kCacheRows, -1, 17, int64 ? (int64_t(1) << 32) + 5 : int64_t(1) << 30,
                                    int64 ? -(int64_t(1) << 40) + 7 : -5};
  std::vector<int64_t> out;
  for (int64_t t = 0; t < tokens; ++t) out.push_back(all[size_t(t) % all.size()]);
  return out;
}

struct Inputs {
  Inputs(DType dtype, int64_t tokens, int q_heads, int k_heads, Shape s, const Variation& v)
      : ids(positions_of(tokens, v.int64)),
        q(dtype, tokens * q_heads, s.head_dim, v.layout),
        k(dtype, tokens * k_heads, s.head_dim, v.layout),
        cache(v.cache_is_float32 ? kFloat32 : dtype, kCacheRows, s.rotary_dim, v.layout),
        positions(ids, v.int64 ? 8 : 4, v.position_stride),
        q_weight(dtype, 1, s.head_dim),
        k_weight(dtype, 1, s.head_dim) {
    fill(q), fill(k), fill_angles(cache, s.rotary_dim);
    fill(q_weight, 0.3, 1), fill(k_weight, 0.3, 0.5);
  }
  void expect_all_intact() const {
    expect_intact(q, "q"), expect_intact(k, "k"), expect_intact(cache, "cache"), expect_intact(positions, "positions");
  }
  std::vector<int64_t> ids;
  Matrix q, k, cache, positions, q_weight, k_weight;
};

std::string case_name(const char* op, DType dtype, int64_t tokens, int q_heads, int k_heads, Shape s, const Variation& v) {
  return text("%s %s %lld tokens %d+%d heads %d/%d %s cache %s int%d stride %lld layout %d threads %u", op, name_of(dtype),
              (long long)tokens, q_heads, k_heads, s.head_dim, s.rotary_dim, v.interleaved ? "pairs" : "halves",
              v.cache_is_float32 ? "float32" : "own", v.int64 ? 64 : 32, (long long)v.position_stride, int(v.layout), v.threads);
}

void rotary_case(DType dtype, int64_t tokens, int q_heads, int k_heads, Shape s, const Variation& v) {
  check_case(case_name("rotary_embedding", dtype, tokens, q_heads, k_heads, s, v), [&] {
    Inputs in(dtype, tokens, q_heads, k_heads, s, v);
    const Rotation how{s.rotary_dim, v.interleaved};
    std::vector<double> q = in.q.values(), k = in.k.values();
    const std::vector<double> q_before = q;
    rotate_reference(q, q_heads, s.head_dim, in.ids, in.cache, how);
    rotate_reference(k, k_heads, s.head_dim, in.ids, in.cache, how);
    run(plan_rotary(rotary_args({&in.q, q_heads}, {&in.k, k_heads}, in.positions, v.int64, tokens, in.cache, how), dtype),
        v.order, v.threads);
    expect_close(in.q, q, "q"), expect_close(in.k, k, "k");
    in.expect_all_intact();
    // Outside the cache, and beyond rotary_dim, nothing changes at all.
    for (int64_t t = 0; t < tokens; ++t) {
      const bool outside = in.ids[size_t(t)] < 0 || in.ids[size_t(t)] >= kCacheRows;
      for (int h = 0; h < q_heads; ++h) {
        const int64_t row = t * q_heads + h;
        for (int c = outside ? 0 : s.rotary_dim; c < s.head_dim; ++c) {
          expect(in.q.get(row, c) == q_before[size_t(row * s.head_dim + c)], "token %lld changed", (long long)t);
        }
      }
    }
  });
}

void prologue_case(DType dtype, int64_t tokens, int q_heads, int k_heads, Shape s, const Variation& v, double offset) {
  check_case(case_name("qk_norm_rope", dtype, tokens, q_heads, k_heads, s, v), [&] {
    Inputs in(dtype, tokens, q_heads, k_heads, s, v);
    const Rotation how{s.rotary_dim, v.interleaved};
    std::vector<double> q = norm_reference(in.q, in.q_weight, kEps, offset);
    std::vector<double> k = norm_reference(in.k, in.k_weight, kEps, offset);
    for (double& x : q) x = rounded(dtype, x);
    for (double& x : k) x = rounded(dtype, x);
    rotate_reference(q, q_heads, s.head_dim, in.ids, in.cache, how);
    rotate_reference(k, k_heads, s.head_dim, in.ids, in.cache, how);

    // The two operators after each other give the same bits.
    Matrix q_two(dtype, tokens * q_heads, s.head_dim), k_two(dtype, tokens * k_heads, s.head_dim);
    norm(q_two, in.q, nullptr, in.q_weight, offset);
    norm(k_two, in.k, nullptr, in.k_weight, offset);
    run(plan_rotary(rotary_args({&q_two, q_heads}, {&k_two, k_heads}, in.positions, v.int64, tokens, in.cache, how), dtype),
        Order::kForward);

    PrologueArgs a{};
    a.rotary = rotary_args({&in.q, q_heads}, {&in.k, k_heads}, in.positions, v.int64, tokens, in.cache, how);
    a.q_weight = in.q_weight.buffer(), a.k_weight = in.k_weight.buffer();
    a.eps = float(kEps), a.weight_offset = float(offset);
    run(plan_prologue(a, dtype), v.order, v.threads);
    expect_close(in.q, q, "q"), expect_close(in.k, k, "k");
    expect_same_bits(in.q, q_two, "q against rms_norm and rotary_embedding");
    expect_same_bits(in.k, k_two, "k against rms_norm and rotary_embedding");
    in.expect_all_intact();
  });
}

const Shape kShapes[] = {{64, 64}, {128, 128}, {256, 256}, {128, 64}, {80, 20}, {96, 72}, {10, 6}, {37, 14}, {5, 2}};

template <class Case>
void all(const Case& run_case) {
  int turn = 0;
  for (DType dtype : kDTypes) {
    for (bool interleaved : {false, true}) {
      Variation plain;
      plain.interleaved = interleaved;
      for (Shape s : kShapes) {
        plain.order = Order(turn++ % 3);
        plain.cache_is_float32 = turn % 2 == 0;
        run_case(dtype, 1, 1, 1, s, plain);
        plain.int64 = turn % 4 < 2;
        run_case(dtype, 8, 3, 2, s, plain);
      }
      plain = Variation();
      plain.interleaved = interleaved;
      run_case(dtype, 3, 16, 8, Shape{128, 128}, plain);
      run_case(dtype, 2, 5, 0, Shape{64, 32}, plain);
      run_case(dtype, 0, 2, 1, Shape{64, 64}, plain);
      for (uint32_t threads : kSizes) {
        Variation v = plain;
        v.threads = threads, v.order = Order(turn++ % 3);
        run_case(dtype, 2, 12, 5, Shape{128, 64}, v);
      }
      for (Layout layout : {Layout::kWide, Layout::kOdd, Layout::kUnaligned}) {
        Variation v = plain;
        v.layout = layout;
        v.position_stride = 3;
        v.int64 = layout != Layout::kWide;
        v.cache_is_float32 = layout == Layout::kOdd;
        v.order = Order::kShuffled;
        for (Shape s : {Shape{64, 64}, Shape{96, 72}}) run_case(dtype, 8, 2, 3, s, v);
      }
    }
  }
}

}  // namespace

void rotary_cases() { all(rotary_case); }

void prologue_cases() {
  int turn = 0;
  all([&](DType dtype, int64_t tokens, int q, int k, Shape s, const Variation& v) {
    prologue_case(dtype, tokens, q, k, s, v, turn++ % 2);
  });
  for (DType dtype : kDTypes) {  // heads of several slices, and more than one pass
    for (Shape s : {Shape{512, 512}, Shape{600, 200}, Shape{1030, 514}, Shape{4600, 4600}}) {
      prologue_case(dtype, 2, 2, 1, s, Variation(), 0);
    }
  }
}

}  // namespace harness
