// The cases' common parts: inputs, references in float64, comparison.
#pragma once

#include <cstdarg>
#include <functional>
#include <string>
#include <vector>

#include "memory.h"
#include "shaders.h"

namespace harness {

using thox_edge_ops_metal::kBFloat16;
using thox_edge_ops_metal::kFloat16;
using thox_edge_ops_metal::kFloat32;

constexpr DType kDTypes[] = {kFloat32, kFloat16, kBFloat16};
constexpr double kEps = 1e-6;

// Threads per threadgroup that every operator runs with, beside the planned
// ones: what a Mac's GPUs allow.
constexpr uint32_t kSizes[] = {32, 64, 96, 160, 256, 512, 1024};

const char* name_of(DType dtype);
double tolerance(DType dtype);  // relative to max(1, |value|)

// Runs body as one case; counts it, and prints what went wrong.
void check_case(const std::string& name, const std::function<void()>& body);
int report();  // the exit status
void stop_at_first(bool yes);  // end the program with the first case that fails

// Within a case: records a failure unless ok.
void expect(bool ok, const char* format, ...) __attribute__((format(printf, 2, 3)));
void expect_close(const Matrix& got, const std::vector<double>& want, const char* what);
void expect_same_bits(const Matrix& a, const Matrix& b, const char* what);
void expect_intact(const Matrix& m, const char* what);

void fill(Matrix& m, double scale = 1, double mean = 0);  // normal values
std::string text(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Groups of cases, each in its own file.
void norm_cases();
void gate_cases();
void rotary_cases();
void prologue_cases();

// --- references: exact results from the values as stored

std::vector<double> norm_reference(const Matrix& x, const Matrix& weight, double eps, double offset);

// A token's heads as rows of a matrix: row token * heads + head.
struct Rotation {
  int rotary_dim;
  bool interleaved;
};
void rotate_reference(std::vector<double>& heads, int64_t head_count, int64_t head_dim,
                      const std::vector<int64_t>& positions, const Matrix& cache, const Rotation& how);
void fill_angles(Matrix& cache, int rotary_dim);

// Launches with the planned number of threads.
void norm(const Matrix& out, const Matrix& x, const Matrix* residual, const Matrix& weight, double offset,
          Order order = Order::kForward, uint32_t threads = 0);

// q or k: heads of tokens, with strides of their own.
struct Heads {
  const Matrix* rows;  // tokens * heads rows
  int count;
};
thox_edge_ops_metal::RotaryArgs rotary_args(const Heads& q, const Heads& k, const Matrix& positions, bool int64,
                                            int64_t tokens, const Matrix& cache, const Rotation& how);

}  // namespace harness
