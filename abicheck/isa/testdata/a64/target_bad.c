// The same without the test.
__attribute__((target("arch=armv8.1-a"), noinline)) static void fast(float* p, int n) { p[0] = __atomic_add_fetch(&n, 1, __ATOMIC_ACQ_REL); }
void row(float* p, int n) { fast(p, n); }
