__attribute__((weak)) float helper(float x) { return x * 2; }
void row_avx2(float* p, int n) { (void)n; p[0] = helper(p[0]); }
