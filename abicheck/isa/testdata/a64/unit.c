// A well-made unit: one hidden entry, with a dot product.
typedef int v4 __attribute__((vector_size(16)));
typedef signed char v16 __attribute__((vector_size(16)));
__attribute__((visibility("hidden"))) void row_hi(float* p, int n) {
  v4 a = {n, 1, 2, 3};
  v16 b = {1, 2, 3, 4};
  __asm__ volatile("sdot %0.4s, %1.16b, %1.16b" : "+w"(a) : "w"(b));
  p[0] = (float)(a[0] + a[1]);
}
