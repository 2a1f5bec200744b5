#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>

#include "fibres.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
// The two functions of sanitizer/asan_interface.h, which not every clang
// has on its include path.
extern "C" void __asan_poison_memory_region(const volatile void* p, size_t n);
extern "C" void __asan_unpoison_memory_region(const volatile void* p, size_t n);
#define POISON(p, n) __asan_poison_memory_region(p, n)
#define UNPOISON(p, n) __asan_unpoison_memory_region(p, n)
#endif
#endif
#ifndef POISON
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

namespace harness {

using namespace thox_edge_ops_metal;

namespace {

constexpr unsigned char kCanary = 0xcb;  // a NaN-free, recognizable pattern in every dtype

// Bits of mantissa and the least exponent of the two small formats.
struct Format {
  int mantissa, least_exponent, bias;
  uint32_t infinity;
};
Format format_of(DType dtype) {
  return dtype == kFloat16 ? Format{10, -14, 15, 0x7c00} : Format{7, -126, 127, 0x7f80};
}

}  // namespace

size_t size_of(DType dtype) { return dtype == kFloat32 ? 4 : 2; }

double decode(DType dtype, const void* element) {
  if (dtype == kFloat32) {
    float f;
    std::memcpy(&f, element, 4);
    return f;
  }
  uint16_t bits;
  std::memcpy(&bits, element, 2);
  const Format f = format_of(dtype);
  const double sign = bits & 0x8000 ? -1 : 1;
  const int exponent = (bits & 0x7fff) >> f.mantissa, mantissa = bits & ((1 << f.mantissa) - 1);
  if ((bits & f.infinity) == f.infinity) return mantissa ? std::nan("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, f.least_exponent - f.mantissa);
  return sign * std::ldexp(mantissa + (1 << f.mantissa), exponent - f.bias - f.mantissa);
}

void encode(DType dtype, double value, void* element) {
  if (dtype == kFloat32) {
    const float f = float(value);
    std::memcpy(element, &f, 4);
    return;
  }
  const Format f = format_of(dtype);
  uint32_t bits;
  if (std::isnan(value)) {
    bits = f.infinity | 1u << (f.mantissa - 1);
  } else if (std::isinf(value)) {
    bits = f.infinity;
  } else {
    // In units of the last place of the value's binade; nearbyint goes to even.
    int exponent = value == 0 ? f.least_exponent : std::ilogb(value);
    if (exponent < f.least_exponent) exponent = f.least_exponent;
    const double units = std::nearbyint(std::ldexp(std::fabs(value), f.mantissa - exponent));
    // A carry into the exponent is the right one.
    bits = uint32_t(exponent - f.least_exponent) * (1u << f.mantissa) + uint32_t(units);
    if (exponent + f.bias > 2 * f.bias || bits > f.infinity) bits = f.infinity;
  }
  if (std::signbit(value)) bits |= 0x8000;
  const uint16_t narrow = uint16_t(bits);
  std::memcpy(element, &narrow, 2);
}

double rounded(DType dtype, double value) {
  unsigned char e[4];
  encode(dtype, value, e);
  return decode(dtype, e);
}

Matrix::Matrix(DType dtype, int64_t rows, int64_t cols, Layout layout)
    : dtype_(dtype), rows_(rows), cols_(cols), stride_(cols), element_(size_of(dtype)) {
  if (layout == Layout::kWide) stride_ = (cols + 3) / 4 * 4 + 16;
  if (layout == Layout::kOdd) stride_ = cols + 13;
  allocate(16, layout == Layout::kUnaligned || layout == Layout::kOdd ? int64_t(element_) : 0);
}

Matrix::Matrix(const std::vector<int64_t>& values, size_t element_size, int64_t stride)
    : rows_(int64_t(values.size())), cols_(1), stride_(stride), element_(element_size) {
  allocate(int64_t(element_size), 0);
  for (size_t i = 0; i < values.size(); ++i) {
    if (element_ == 8) {
      std::memcpy(at(int64_t(i), 0), &values[i], 8);
    } else {
      const int32_t narrow = int32_t(values[i]);
      std::memcpy(at(int64_t(i), 0), &narrow, 4);
    }
  }
}

void Matrix::allocate(int64_t alignment, int64_t misplaced) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t span = rows_ * cols_ == 0 ? 0 : ((rows_ - 1) * stride_ + cols_) * int64_t(element_);
  const int64_t margin = 64;  // canaries in front, and between the end and the guard
  size_ = size_t((span + margin + alignment + page - 1) / page * page);
  mapped_size_ = size_ + 2 * size_t(page);
  mapped_ = static_cast<char*>(mmap(nullptr, mapped_size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (mapped_ == MAP_FAILED) fail("no memory for a tensor");
  base_ = mapped_ + page;
  mprotect(mapped_, size_t(page), PROT_NONE);
  mprotect(base_ + size_, size_t(page), PROT_NONE);
  std::memset(base_, kCanary, size_);
  offset_ = (int64_t(size_) - span - misplaced) / alignment * alignment + misplaced;
  guard(true);
}

Matrix::~Matrix() {
  UNPOISON(base_, size_);
  munmap(mapped_, mapped_size_);
}

// Poisons everything, then frees the elements: AddressSanitizer knows only
// whole granules of eight bytes and the front of one, so the bytes before a
// row in its first granule stay readable.
void Matrix::guard(bool on) const {
  UNPOISON(base_, size_);
  if (!on) return;
  POISON(base_, size_);
  for (int64_t r = 0; r < rows_ && cols_ > 0; ++r) {
    UNPOISON(base_ + offset_ + r * stride_ * int64_t(element_), size_t(cols_) * element_);
  }
}

unsigned char* Matrix::at(int64_t row, int64_t col) const {
  return reinterpret_cast<unsigned char*>(base_) + offset_ + (row * stride_ + col) * int64_t(element_);
}

double Matrix::get(int64_t row, int64_t col) const { return decode(dtype_, at(row, col)); }
void Matrix::set(int64_t row, int64_t col, double value) { encode(dtype_, value, at(row, col)); }

std::vector<double> Matrix::values() const {
  std::vector<double> v;
  v.reserve(size_t(rows_ * cols_));
  for (int64_t r = 0; r < rows_; ++r) {
    for (int64_t c = 0; c < cols_; ++c) v.push_back(get(r, c));
  }
  return v;
}

std::vector<unsigned char> Matrix::bits() const {
  std::vector<unsigned char> v;
  for (int64_t r = 0; r < rows_ && cols_ > 0; ++r) v.insert(v.end(), at(r, 0), at(r, 0) + size_t(cols_) * element_);
  return v;
}

void Matrix::copy_from(const Matrix& other) {
  for (int64_t r = 0; r < rows_ && cols_ > 0; ++r) std::memcpy(at(r, 0), other.at(r, 0), size_t(cols_) * element_);
}

bool Matrix::intact() const {
  guard(false);
  // What lies before the first row, in the gaps, and behind the last.
  bool ok = true;
  const unsigned char* p = reinterpret_cast<unsigned char*>(base_);
  const unsigned char* const end = p + size_;
  for (int64_t r = 0; r < rows_ && cols_ > 0; ++r) {
    const unsigned char* const row = at(r, 0);
    for (; p < row; ++p) ok &= *p == kCanary;
    p = row + size_t(cols_) * element_;
  }
  for (; p < end; ++p) ok &= *p == kCanary;
  guard(true);
  return ok;
}

}  // namespace harness
