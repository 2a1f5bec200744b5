// Tensors in memory where every byte that is no element is a trap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "edge_ops_metal.h"

namespace harness {

using thox_edge_ops_metal::Buffer;
using thox_edge_ops_metal::DType;

size_t size_of(DType dtype);
double decode(DType dtype, const void* element);
void encode(DType dtype, double value, void* element);  // rounds to nearest even, once
double rounded(DType dtype, double value);

// How the elements lie in memory.
enum class Layout {
  kContiguous,  // 16-byte aligned
  kWide,        // rows with a gap behind them that keeps them aligned
  kOdd,         // rows with a gap behind them, each starting at another alignment
  kUnaligned,   // contiguous, and no row at a 16-byte boundary if it can be helped
};

// rows x cols elements. Between and around the rows lie canaries; where the
// compiler has AddressSanitizer they are poisoned as well, so that reading them
// fails too. The last element is followed, within 16 bytes, by a page without
// access, and a page without access precedes the first page.
class Matrix {
 public:
  Matrix(DType dtype, int64_t rows, int64_t cols, Layout layout = Layout::kContiguous);
  // A matrix of integers: positions.
  Matrix(const std::vector<int64_t>& values, size_t element_size, int64_t stride);
  ~Matrix();
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  DType dtype() const { return dtype_; }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  int64_t stride() const { return stride_; }
  Buffer buffer() const { return Buffer(base_, offset_); }

  double get(int64_t row, int64_t col) const;
  void set(int64_t row, int64_t col, double value);
  std::vector<double> values() const;
  std::vector<unsigned char> bits() const;
  void copy_from(const Matrix& other);

  // False where a canary was written to.
  bool intact() const;

 private:
  void allocate(int64_t alignment, int64_t misplaced);
  void guard(bool on) const;
  unsigned char* at(int64_t row, int64_t col) const;

  DType dtype_ = thox_edge_ops_metal::kFloat32;
  int64_t rows_, cols_, stride_;
  size_t element_;
  char *mapped_ = nullptr, *base_ = nullptr;
  size_t mapped_size_ = 0, size_ = 0;  // size: bytes between the two guards
  int64_t offset_ = 0;                 // of the first element from base
};

}  // namespace harness
