// An inline variable with a dynamic initialiser.
inline float scale_of() { volatile float x = 3; return x * 0.5f; }
inline float factor = scale_of();
extern "C" void row_avx2(float* p, int n) { for (int i = 0; i < n; i++) p[i] *= factor; }
