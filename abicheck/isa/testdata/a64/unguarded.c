// Calls the entry without a test.
#include "a64.h"
void row(float* p, int n) { row_hi(p, n); }
