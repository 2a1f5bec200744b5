__attribute__((visibility("hidden"))) void row_hi(float* p, int n) { for (int i = 0; i < n; i++) p[i] = p[i] * 3 + 1; }
