// A resolver that is itself compiled for LSE.
static int count;
static void impl(float* p, int n) { p[0] = count + n; }
static void (*pick(void))(float*, int) { __atomic_add_fetch(&count, 1, __ATOMIC_ACQ_REL); return impl; }
void row(float* p, int n) __attribute__((ifunc("pick")));
