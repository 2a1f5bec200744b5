float helper(float x) { return x * 2; }
__attribute__((visibility("hidden"))) void row_avx2(float* p, int n) { (void)n; p[0] = helper(p[0]); }
