// What a shared header does to the units that include it.
#pragma once
__attribute__((noinline, noclone)) inline float hdr_dot(const float* a, const float* b, int n) {
  float s = 0;
  for (int i = 0; i < n; i++) s += a[i] * b[i];
  return s;
}
template <class T> __attribute__((noinline, noclone)) T hdr_sum(const T* a, int n) {
  T s = 0;
  for (int i = 0; i < n; i++) s += a[i];
  return s;
}
struct Half {
  unsigned short x;
  __attribute__((noinline, noclone)) operator float() const { return float(x) * 0.25f; }
};
