// The ISA unit that the dispatchers call: clean at every level.
typedef float v8 __attribute__((vector_size(32), aligned(4)));
namespace {
__attribute__((noinline)) void heavy(float* p, int n) {
  for (int i = 0; i + 8 <= n; i += 8) {
    v8* v = (v8*)(p + i);
    *v = *v * *v + 1.0f;
  }
}
}
extern "C" __attribute__((visibility("hidden"))) void row_avx2(float* p, int n) {
  v8* v = (v8*)p;
  *v = *v + *v;
  heavy(p, n);
}
