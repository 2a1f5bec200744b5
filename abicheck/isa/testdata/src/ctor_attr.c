static float k[8];
__attribute__((constructor)) static void fill(void) { for (volatile int i = 0; i < 8; i++) k[i] = i * 0.5f; }
__attribute__((visibility("hidden"))) void row_avx2(float* p, int n) { p[0] = k[n & 7]; }
