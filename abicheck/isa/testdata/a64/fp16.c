__attribute__((visibility("hidden"))) void row_hi(float* p, int n) { (void)n; _Float16 a = p[0], b = p[1]; for (int i = 0; i < n; i++) a = a * b + b; p[0] = a; }
