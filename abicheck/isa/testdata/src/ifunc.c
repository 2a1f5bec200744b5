__attribute__((target_clones("avx2", "default"))) void row(float* p, int n) { for (int i = 0; i < n; i++) p[i] *= 2; }
