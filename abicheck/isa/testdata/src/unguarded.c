// Calls the AVX2 entry without a test.
void row_avx2(float* p, int n);
void row(float* p, int n) { row_avx2(p, n); }
