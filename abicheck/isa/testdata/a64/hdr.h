// What a shared header does to the units that include it.
#pragma once
#ifdef __clang__
#define APART __attribute__((noinline))
#else
#define APART __attribute__((noinline, noipa))
#endif
#define HIDDEN extern "C" __attribute__((visibility("hidden")))
APART inline int hdr_bump(int* p) { return __atomic_add_fetch(p, 1, __ATOMIC_ACQ_REL); }
template <class T> APART void hdr_scale(T* p, int n) {
  for (int i = 0; i < n; i++) p[i] = p[i] * 3 + 1;
}
struct Half {
  unsigned short x;
#ifdef __ARM_FEATURE_FP16_SCALAR_ARITHMETIC
  APART operator float() const { float f; __asm__("fmov %h0, %w1\n fadd %h0, %h0, %h0\n fcvt %s0, %h0" : "=&w"(f) : "r"(x)); return f; }
#else
  APART operator float() const { return float(x) * 0.25f; }
#endif
};
struct Base { virtual ~Base() {} virtual int run(int* p) const { return __atomic_add_fetch(p, 1, __ATOMIC_ACQ_REL); } };
