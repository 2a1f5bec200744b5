void row(float* p, int n) { (void)p; (void)n; __asm__ volatile("vzeroupper"); }
