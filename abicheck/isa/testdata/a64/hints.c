// Signed returns and branch targets are hints: old processors skip them.
__attribute__((noinline)) static int step(int (*f)(int), int n) { return f(n) + 1; }
static int twice(int n) { return n * 2; }
void row(float* p, int n) { int (*volatile f)(int) = twice; p[0] = step(f, n); }
