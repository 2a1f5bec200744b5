// Tests, and calls anyway.
#include "a64.h"
int puts(const char*);
void row(float* p, int n) { if (getauxval(hwcap) & asimddp) puts("fast"); row_hi(p, n); }
